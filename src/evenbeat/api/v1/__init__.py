"""/api/v1: the REST API."""
