"""The doctor: what is wrong with an installation, and what to do about it. It changes nothing."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from evenbeat.config import Settings
from evenbeat.control.ops.verify import build_verify_report
from evenbeat.core.ops.figures import ClusterFigures, DatabaseFigures, ScheduleLag
from evenbeat.core.runs.registry import SWITCHES
from evenbeat.core.time.durations import format_duration
from evenbeat.store.database import clock, migrations
from evenbeat.store.database.pool import Database
from evenbeat.store.ops import figures, maintenance, table_storage

CHECKS = (
    *("schema", "storage", "schedule", "nodes", "kinds", "dead letters", "vacuum"),
    *("transactions", "connections", "clock", "settings", "maintenance", "rules"),
)
# A table with more dead rows than this, and more dead than live ones, needs vacuum.
MANY_DEAD = 10_000
LONG_TRANSACTION = timedelta(minutes=10)
# Transactions behind an old snapshot, which keep vacuum from removing rows. At a thousand
# transactions a second this is a quarter of an hour.
OLD_SNAPSHOT = 1_000_000
FULL = 0.8
# Other programs need connections too, and PostgreSQL reserves three for administrators.
SPARE_CONNECTIONS = 10
CLOCKS_APART = timedelta(seconds=2)


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found, and what to do. Without `is_wrong` it is only a note."""

    check: str
    what: str
    advice: str
    is_wrong: bool = True


async def diagnose(
    database: Database, settings: Settings, *, with_rules: bool = True
) -> list[Finding]:
    """All findings. `with_rules` also runs the verifier, which reads the whole history."""
    status = await migrations.read_schema_status(database)
    if not status.is_current:
        advice = "upgrade Evenbeat" if status.is_newer else "run `evenbeat db migrate`"
        return [Finding("schema", "is not the one that this version needs", advice)]
    found = [
        Finding(
            "storage", f"{each.what} is {each.found or 'not set'}, not {each.wanted}", each.advice
        )
        for each in await table_storage.find_setting_mismatches(database)
    ]
    seen = await figures.measure_figures(database)
    found += check_schedule_and_nodes(await figures.read_lag(database), settings)
    found += check_kinds_and_letters(seen)
    found += check_database_server(seen.database, settings)
    found += check_settings(settings)
    found += await check_clocks(database)
    paused = await maintenance.read_maintenance(database)
    if paused is not None:
        advice = "switch it off, if it is forgotten"
        found.append(Finding("maintenance", "is on: nothing starts", advice, is_wrong=False))
    return [*found, *(await check_rules(database) if with_rules else [])]


def check_schedule_and_nodes(lag: ScheduleLag, settings: Settings) -> Iterator[Finding]:
    if lag.schedule > settings.ready_lag:
        late, most = rounded(lag.schedule), rounded(settings.ready_lag)
        advice = "start another node, raise `concurrency`, or look at what takes so long"
        yield Finding("schedule", f"a job is {late} late, and {most} are allowed", advice)
    if not lag.live_nodes:
        silent = "there never was one"
        if lag.silent is not None:
            silent = f"the last one was heard of {rounded(lag.silent)} ago"
        yield Finding("nodes", f"none is alive: {silent}", "start `evenbeat up` or `worker`")


def check_kinds_and_letters(seen: ClusterFigures) -> Iterator[Finding]:
    for lane in seen.lanes:
        if lane.due and not lane.is_served:
            where = f" with the labels {', '.join(lane.runs_on)}" if lane.runs_on else ""
            what = f"{lane.due} jobs of kind {lane.kind}{where} are due, and no live node serves it"
            switch = SWITCHES.get(lane.kind)
            start = f"start a node with {switch}" if switch else "start a node that does"
            yield Finding("kinds", what, f"{start}, or pause these jobs")
    if seen.open_dead_letters:
        age = rounded(seen.oldest_dead_letter)
        what = f"not acknowledged: {seen.open_dead_letters}, the oldest for {age}"
        yield Finding(
            "dead letters", what, "see why these beats failed; requeue or acknowledge them"
        )


def check_database_server(seen: DatabaseFigures, settings: Settings) -> Iterator[Finding]:
    for table in seen.tables:
        if table.dead > max(MANY_DEAD, table.live):
            what = f"evenbeat.{table.name} has {table.dead:,} dead rows beside {table.live:,}"
            yield Finding(
                "vacuum", what, f"end long transactions, then vacuum evenbeat.{table.name}"
            )
    if seen.oldest_transaction > LONG_TRANSACTION:
        what = f"one has been open for {rounded(seen.oldest_transaction)}, and holds back vacuum"
        yield Finding(
            "transactions", what, "find it in pg_stat_activity, by xact_start, and end it"
        )
    if seen.xmin_age > OLD_SNAPSHOT:
        what = f"vacuum is held back by {seen.xmin_age:,} transactions"
        yield Finding("transactions", what, "look for replication slots and prepared transactions")
    taken, most = seen.connections, seen.max_connections
    if taken > FULL * most:
        what = f"{taken} of {most} are taken"
        yield Finding("connections", what, "raise max_connections, or put a pooler in between")
    if settings.pool_size > most - SPARE_CONNECTIONS:
        what = f"pool_size is {settings.pool_size}, and the server has {most} connections for all"
        yield Finding("connections", what, "lower pool_size, or raise max_connections")


def check_settings(settings: Settings) -> Iterator[Finding]:
    if settings.ready_lag <= settings.check_interval:
        what = "ready_lag is not longer than check_interval: /readyz fails between two looks"
        yield Finding("settings", what, "raise ready_lag")
    if settings.stale_check_interval > settings.lease_duration:
        what = "stale_check_interval is longer than lease_duration: the dead are found late"
        yield Finding("settings", what, "lower stale_check_interval", is_wrong=False)
    if settings.stop_grace > settings.drain_timeout:
        what = "stop_grace is longer than drain_timeout: stopping takes longer than it says"
        yield Finding("settings", what, "lower stop_grace", is_wrong=False)


async def check_clocks(database: Database) -> list[Finding]:
    if database.clock != "database":
        return []
    before = datetime.now(UTC)
    database_now = await clock.now(database)
    return list(compare_clocks(before, database_now, datetime.now(UTC)))


def compare_clocks(before: datetime, database_now: datetime, after: datetime) -> Iterator[Finding]:
    """Schedules use the clock of the database; tokens and log lines use this machine's.

    The database read its clock between `before` and `after`: the time that the query took is no
    difference of clocks.
    """
    apart = max(before - database_now, database_now - after)
    if apart > CLOCKS_APART:
        what = f"this machine's and the database's are {rounded(apart)} apart"
        yield Finding("clock", what, "synchronise both by NTP: tokens and log lines go by ours")


async def check_rules(database: Database) -> list[Finding]:
    report = await build_verify_report(database)
    if not report.breaches:
        return []
    rules = {breach.rule for breach in report.breaches}
    what = f"{len(report.breaches)} breaches of {len(rules)} rules"
    return [Finding("rules", what, "see `evenbeat verify`")]


def rounded(length: timedelta) -> str:
    return format_duration(timedelta(seconds=max(round(length.total_seconds()), 0)))
