"""What Evenbeat knows without asking anyone: pure values and functions, time always an argument."""
