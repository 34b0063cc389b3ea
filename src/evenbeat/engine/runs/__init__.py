"""What a node does to runs: claim, run, settle, record."""
