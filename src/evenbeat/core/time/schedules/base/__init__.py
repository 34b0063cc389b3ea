"""What the kinds of schedule are made of: zones, patterns, windows, reading and printing."""
