"""Runs as values: what a handler is given and reports, and what follows from it."""
