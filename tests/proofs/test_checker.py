"""The check of effects against tables finds what it is there for."""

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.proofs.fleet import disagreements

NOW = time.time()
BOOT = time.clock_gettime(time.CLOCK_BOOTTIME)


def run(number: int, began: float, ended: float, state: bytes = b"c") -> dict[str, Any]:
    at = [datetime.fromtimestamp(NOW + each, UTC) for each in (began, ended)]
    return {"id": number, "state": state, "started_at": at[0], "finished_at": at[1]}


def effect(number: int, *at: float, pid: int = 1) -> list[dict[str, Any]]:
    return [
        {"what": what, "run": number, "job": "a job", "pid": pid, "at": BOOT + each}
        for what, each in zip(("start", "end"), at, strict=False)
    ]


HEALTHY_RUNS = [run(1, 0, 10), run(2, 20, 30)]
HEALTHY = effect(1, 1, 9) + effect(2, 21, 29)
BAD = {
    "had no effect": (HEALTHY_RUNS, effect(1, 1, 9)),
    "which no table knows": (HEALTHY_RUNS[:1], HEALTHY),
    "twice": (HEALTHY_RUNS, HEALTHY + effect(2, 21, 29)),
    "ended after the run": (HEALTHY_RUNS, effect(1, 1, 12) + effect(2, 21, 29)),
    "began before the run": (HEALTHY_RUNS, effect(1, 1, 9) + effect(2, 15, 29)),
    "overlap": ([run(1, 0, 30), run(2, 5, 30)], effect(1, 1, 9) + effect(2, 6, 29)),
}


def test_two_records_that_agree_are_in_order() -> None:
    assert disagreements(HEALTHY_RUNS, HEALTHY, set()) == []


@pytest.mark.parametrize("sign", BAD)
def test_what_does_not_agree_is_told(sign: str) -> None:
    found = disagreements(*BAD[sign], set())
    assert len(found) == 1
    assert sign in found[0]


def test_a_process_that_was_frozen_is_excused_for_overlapping_but_not_for_loss() -> None:
    runs, lines = BAD["overlap"]
    frozen = effect(1, 1, 9, pid=2) + lines[2:]
    assert disagreements(runs, frozen, {2}) == []
    assert disagreements(runs, frozen[1:], {2}) == []
    assert len(disagreements(runs, frozen[2:], {2})) == 1
