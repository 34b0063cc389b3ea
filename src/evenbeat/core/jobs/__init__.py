"""Jobs as values: what a person wrote, their states, and what may be done to them."""
