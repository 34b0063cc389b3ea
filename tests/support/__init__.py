"""What tests share: a real PostgreSQL, a clock to set, real processes, and waiting for events."""
