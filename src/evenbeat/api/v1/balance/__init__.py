"""Routes about the balance of the load."""
