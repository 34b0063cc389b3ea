"""Calls one command after the other in one process, and prints what each has printed, as JSON."""

import contextlib
import io
import json
import sys

from evenbeat.cli import commands


def main() -> None:
    printed: list[str] = []
    for arguments in json.loads(sys.argv[1]):
        with contextlib.redirect_stdout(io.StringIO()) as output:
            commands.app(arguments, standalone_mode=False)
        printed.append(output.getvalue())
    print(json.dumps(printed))


if __name__ == "__main__":
    main()
