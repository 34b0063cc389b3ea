"""Evenbeat: a job scheduler on PostgreSQL that keeps the load even and every job on its beat."""
