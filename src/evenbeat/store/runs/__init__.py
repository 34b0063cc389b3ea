"""The rows of runs: leases, history, log lines, dead letters, and runs of SQL functions."""
