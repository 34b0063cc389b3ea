"""What tests share: a real server, a clock to set, real processes, and waiting for events."""
