"""How even each placement is, on every fleet, in one table."""

import time

from bench.support.balance import fleets, oracle, ours, rivals
from bench.support.balance.judge import GRAINS, judge, starts, week_of

PLACEMENTS = {**rivals.ALL, "evenbeat": ours.online, "evenbeat, all at once": ours.batch}
COLUMNS = ("concurrency", "late %", "wrong interval %", "outside %")


def measure() -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for make in fleets.ALL:
        fleet = make()
        print(f"\n{fleet.name}: {' '.join((make.__doc__ or '').split())}")
        print(f"{'':24}{'slot':>18}{'minute':>18}{'second':>14}" + _heads())
        # The runs that were asked for: a placement with other intervals is not let off by them.
        asked = rivals.now_plus_interval(fleet)
        best = oracle.best_of(fleet, int(starts(fleet, asked, week_of(fleet)).sum()))
        for name, place in PLACEMENTS.items():
            began = time.process_time()
            placed = place(fleet)
            took = time.process_time() - began
            figures = judge(fleet, placed, best) | {"ms a job": took / len(fleet) * 1000}
            found[f"{fleet.name}: {name}"] = figures
            print(_row(name, figures), flush=True)
        lasting = {grain: oracle.lasting_bound(fleet, size) for grain, size in GRAINS.items()}
        if None not in lasting.values():
            print(f"sooner or later, at least: {lasting}")
            found[f"{fleet.name}: sooner or later"] = {k: v or 0 for k, v in lasting.items()}
    return found


def _heads() -> str:
    return "".join(f"{name:>18}" for name in COLUMNS) + f"{'ms a job':>10}"


def _row(name: str, figures: dict[str, float]) -> str:
    cells = [f"{name:24}"]
    for grain in GRAINS:
        peak, best = figures[f"{grain} peak"], figures[f"{grain} best"]
        shown = (
            f"{peak:,.0f}/{best:,.0f}" if grain == "second" else f"{peak / best:.3f} ({peak:,.0f})"
        )
        cells.append(f"{shown:>{14 if grain == 'second' else 18}}")
    cells += [f"{figures[column]:>18,.1f}" for column in COLUMNS]
    return "".join(cells) + f"{figures['ms a job']:>10.2f}"
