"""What a node does to jobs that do not run: it plans them, and lets them into their groups."""
