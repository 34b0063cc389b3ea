"""program jobs: the handler, its payload, and the supervisor process beside each program."""
