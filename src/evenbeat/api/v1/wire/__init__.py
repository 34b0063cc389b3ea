"""What goes over the wire on /api/v1, and how it translates."""
