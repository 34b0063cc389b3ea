"""The way to PostgreSQL: connections, named statements, the clock and the schema's migrations."""
