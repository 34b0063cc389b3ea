"""How Evenbeat tells what it does: log events, defined once."""
