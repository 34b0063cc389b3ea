"""Wire models of jobs."""
