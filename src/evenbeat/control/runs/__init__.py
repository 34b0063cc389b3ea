"""What people do with the history of runs, and about dead letters."""
