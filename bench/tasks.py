"""Tasks beside raw SQL and plain FastAPI in the same run: posted, added at once, drained.

The client, the server and the database share one machine: the ratios say more than the figures.
"""

import argparse
import asyncio
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.support import tasks
from bench.support.server import server

from evenbeat.config import load
from evenbeat.observe import log


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=20_000, help="added at once, and drained")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each way of posting")
    parser.add_argument("--rounds", type=int, default=3, help="of adding and draining, at most")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    chosen = parser.parse_args()
    log.configure(load(environ={}, log_level="error"))
    with server() as running:
        figures = asyncio.run(tasks.measure(running, chosen))
    for name, value in figures.items():
        print(f"{name:44} {value:12,.2f}")
    if chosen.json:
        chosen.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
