"""The command line: `evenbeat`."""

from evenbeat.cli.main import main

__all__ = ["main"]
