"""Figures: the state of the whole cluster as one value, which every process reads."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from evenbeat.core.jobs.model import State


@dataclass(frozen=True, slots=True)
class ScheduleLag:
    """How late the schedule is: in lanes that a living node serves, and in those none does."""

    served: timedelta
    unserved: timedelta
    live_nodes: int
    # How long ago the last node was believed to live; None: there never was one.
    silent: timedelta | None

    @property
    def schedule(self) -> timedelta:
        """How late jobs are. Jobs that no node serves count only if no node lives at all."""
        return self.served if self.live_nodes else self.unserved


@dataclass(frozen=True, slots=True)
class LaneFigures:
    """What waits in a lane: how many are due, up to a bound, and how late the oldest is."""

    kind: str
    runs_on: tuple[str, ...]
    is_served: bool
    due: int
    lag: timedelta


@dataclass(frozen=True, slots=True)
class RunTotals:
    """What the runs of a kind came to since the beginning; `failed` includes the lost ones."""

    kind: str
    completed: int
    failed: int
    lost: int
    cancelled: int
    skipped: int


@dataclass(frozen=True, slots=True)
class TableFigures:
    """Rows of a table, and those that vacuum has yet to clear away."""

    name: str
    live: int
    dead: int
    vacuumed_ago: timedelta | None


@dataclass(frozen=True, slots=True)
class DatabaseFigures:
    """What PostgreSQL says of itself.

    A transaction that is held open for long keeps dead rows from being cleared away: `xmin_age`
    counts the transactions since the oldest one that an open transaction may still read.
    """

    size_bytes: int
    connections: int
    max_connections: int
    oldest_transaction: timedelta
    xmin_age: int
    tables: tuple[TableFigures, ...]


@dataclass(frozen=True, slots=True)
class ClusterFigures:
    """Taken by one node for all, at `taken_at`; jobs are counted more rarely, at `counted_at`."""

    taken_at: datetime
    lanes: tuple[LaneFigures, ...]
    live_nodes: int
    open_dead_letters: int
    oldest_dead_letter: timedelta
    runs: tuple[RunTotals, ...]
    database: DatabaseFigures
    counted_at: datetime | None
    jobs: Mapping[State, int]

    @property
    def running(self) -> int:
        """Leases, as of `counted_at`."""
        return self.jobs.get(State.RUNNING, 0)

    @property
    def lag(self) -> timedelta:
        """Of the lanes that a living node serves."""
        return max((lane.lag for lane in self.lanes if lane.is_served), default=timedelta(0))
