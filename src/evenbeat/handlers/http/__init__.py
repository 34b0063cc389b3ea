"""http jobs: the handler, its payload, and requests to permitted addresses."""
