"""Wire models of balancing."""
