"""The command line: `evenbeat`."""

import sys


def main() -> None:
    """Run the command. Ctrl-C ends it without a message, even while modules are loading."""
    try:
        from evenbeat.cli import commands

        commands.main()
    except KeyboardInterrupt:
        sys.exit(130)
