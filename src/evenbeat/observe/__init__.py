"""How Evenbeat tells what it does: log events, metrics and traces, defined once."""
