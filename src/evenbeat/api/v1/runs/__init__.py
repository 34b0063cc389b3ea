"""Routes about runs and dead letters."""
