"""Types and examples that the wire models of /api/v1 share."""
