"""What people do about the balance of the load."""
