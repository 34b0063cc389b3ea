"""Wire models of runs and dead letters."""
