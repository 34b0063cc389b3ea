"""Enqueueing beside raw SQL that writes the same rows, in one run; figures as ratios."""

import argparse
import asyncio
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.support import enqueue
from bench.support.server import server

from evenbeat.config import load
from evenbeat.observe import log


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000, help="added at once")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each way of adding one")
    parser.add_argument("--rounds", type=int, default=3, help="at most, within four minutes")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    chosen = parser.parse_args()
    log.configure(load(environ={}, log_level="error"))
    with server() as running:
        figures = asyncio.run(enqueue.measure(running, chosen))
    for name, value in figures.items():
        print(f"{name:76} {value:12,.2f}")
    if chosen.json:
        chosen.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
