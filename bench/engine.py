"""The engine beside the bare statements and a peer, all in one run; figures as ratios.

The peer is pgqueuer. Compare only figures of the same run: absolute ones hold for this machine
at this moment. All measures together end within five minutes.
"""

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.support import beats, claims, idle, lifecycle, pickup
from bench.support.server import server

from evenbeat.config import load
from evenbeat.observe import log

MEASURES = {
    "lifecycle": lifecycle.measure,
    "pickup": pickup.measure,
    "beats": beats.measure,
    "claims": claims.measure,
    "idle": idle.measure,
}

WHAT = """\
evenbeat: an `async def` under @eb.handler that does nothing, in a script with eb.run()
pgqueuer: an `async def` under @entrypoint that does nothing
bare statements: Evenbeat's claim and completion in a loop, with nothing run in between
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measures", nargs="*", help=f"all, or some of: {', '.join(MEASURES)}")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    chosen = parser.parse_args()
    unknown = [name for name in chosen.measures if name not in MEASURES]
    if unknown:
        parser.error(f"no measure {unknown[0]}; there are {', '.join(MEASURES)}")
    log.configure(load(environ={}, log_level="error"))
    figures: dict[str, float] = {}
    with server() as running:
        for name in chosen.measures or MEASURES:
            print(f"measuring: {name} …", file=sys.stderr)
            began = time.monotonic()
            figures |= asyncio.run(MEASURES[name](running))
            print(f"{name} took {time.monotonic() - began:.0f} s", file=sys.stderr)
    print(WHAT)
    for name, value in figures.items():
        print(f"{name:58} {value:12,.2f}")
    if chosen.json:
        chosen.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
