"""What people do to jobs."""
