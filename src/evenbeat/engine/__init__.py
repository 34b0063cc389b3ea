"""What nodes do to jobs, one loop per file."""
