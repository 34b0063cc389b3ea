"""Commands about runs and dead letters."""
