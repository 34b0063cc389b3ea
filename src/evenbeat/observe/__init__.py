"""What operators see of a process: log events, metrics and traces, defined once."""
