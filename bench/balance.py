"""Where jobs are put: our placement beside what others do and beside the exact optimum.

Peaks are given over the optimum per slot (exact, where intervals are whole minutes) and over lower
bounds per minute and second, for one steady week of each fleet. The optimum knows all jobs
beforehand, which placing them one by one cannot. Only `whole` needs a database.
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.support.balance import evenness, moves, speed, whole

MEASURES = {
    "evenness": evenness.measure,
    "moves": moves.measure,
    "speed": speed.measure,
    "rebalance": speed.measure_rebalance,
    "whole": whole.measure,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measures", nargs="*", help=f"all, or some of: {', '.join(MEASURES)}")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    chosen = parser.parse_args()
    unknown = [name for name in chosen.measures if name not in MEASURES]
    if unknown:
        parser.error(f"no measure {unknown[0]}; there are {', '.join(MEASURES)}")
    figures: dict[str, dict[str, float]] = {}
    for name in chosen.measures or MEASURES:
        print(f"measuring: {name} …", file=sys.stderr)
        figures |= MEASURES[name]()
    if chosen.json:
        chosen.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
