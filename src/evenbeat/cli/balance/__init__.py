"""Commands about the balance of the load."""
