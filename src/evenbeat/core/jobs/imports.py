"""Imports from other schedulers: each line is a candidate for a job, with remarks for people."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from typing import Any

from evenbeat.core.errors import InvalidInput
from evenbeat.core.jobs.lifecycle import Action
from evenbeat.core.jobs.model import CatchUp, Definition, Policy
from evenbeat.core.time import crontab
from evenbeat.core.time.crontab import (
    DEFAULT_SHELL,
    Crontab,
    CrontabEntry,
    CrontabSetting,
    UnreadableLine,
)
from evenbeat.core.time.durations import describe_duration
from evenbeat.core.time.schedules.cron import Cron
from evenbeat.core.time.schedules.every import Every
from evenbeat.core.time.timetable import Timetable

LONGEST_SLUG = 60
# Cron has no timeout, no second attempt and no catching up.
CRON_POLICY = Policy(max_attempts=1, timeout=timedelta(days=30), catch_up=CatchUp.NONE)
# The beats of two schedules are compared from this instant on; any other would do as well.
_START = datetime(2001, 1, 1, tzinfo=UTC)
_SAMPLE = 100
_SECRET = re.compile(r"PASS|SECRET|TOKEN|API_?KEY|CREDENTIAL", re.IGNORECASE)
_REMARKS_ON_SETTINGS = {
    "MAILTO": "output is kept with its run, and not mailed",
    "MAILFROM": "output is kept with its run, and not mailed",
    "CRON_TZ": "the lines below it are read in this zone; Debian's cron ignored it, cronie did not",
    "RANDOM_DELAY": "beats are not delayed by chance; H in a schedule spreads them",
    "START_HOURS_RANGE": "is for anacron, and is ignored",
}


class ImportStatus(StrEnum):
    """What becomes of a line."""

    NEW = "new"
    SAME = "there already"
    DIFFERENT = "differs"
    REFUSED = "not imported"
    SETTING = "setting"


@dataclass(frozen=True, slots=True)
class ImportCandidate:
    """A line, the job it would be, and what a person should know about it.

    Without a definition it is no job: `why` says why not, or nothing where it is a setting.
    `aside` is what is done to the new job at once, where it rested before.
    """

    line: int
    text: str
    definition: Definition | None = None
    why: str | None = None
    could_be: str | None = None
    would_differ: str | None = None
    review: tuple[str, ...] = ()
    aside: Action | None = None


def read_crontab_candidates(
    found: Crontab, *, zone: str, prefix: str, kind: str = "program"
) -> Iterator[ImportCandidate]:
    """The candidates of a crontab: cron stays cron, in the zone that cron had."""
    seen: Counter[str] = Counter()
    for line in found.lines:
        match line:
            case CrontabSetting():
                yield ImportCandidate(line.number, line.text, review=describe_setting(line))
            case UnreadableLine():
                yield ImportCandidate(line.number, line.text, why=line.why)
            case CrontabEntry():
                name = build_job_name(line, prefix)
                seen[name] += 1
                # The same command at other times: the order of the lines numbers their names.
                named = name if seen[name] == 1 else f"{name}-{seen[name]}"
                own_zone = line.settings.get("CRON_TZ") or zone
                yield candidate_from_entry(line, zone=own_zone, name=named, kind=kind)


def describe_setting(setting: CrontabSetting) -> tuple[str, ...]:
    remark = _REMARKS_ON_SETTINGS.get(setting.name)
    if _SECRET.search(setting.name):
        remark = "looks like a secret: everyone who may see the jobs below it can read it"
    return (remark,) if remark and setting.value else ()


def candidate_from_entry(
    entry: CrontabEntry, *, zone: str, name: str, kind: str
) -> ImportCandidate:
    try:
        crontab.check_fields(entry.schedule)
        cron = Cron(entry.schedule, zone=zone)
    except InvalidInput as error:
        return ImportCandidate(entry.number, entry.text, why=error.errors[0].message)
    could_be, would_differ = suggest_interval(cron)
    return ImportCandidate(
        entry.number,
        entry.text,
        Definition(kind, Timetable(cron), build_payload(entry), name=name, policy=CRON_POLICY),
        could_be=could_be,
        would_differ=would_differ,
        review=crontab.find_warnings(entry, zone),
    )


def build_payload(entry: CrontabEntry) -> dict[str, Any]:
    """The payload: all that cron gave to the command."""
    env = {
        name: value for name, value in entry.settings.items() if name not in ("SHELL", "CRON_TZ")
    }
    shell = entry.settings.get("SHELL") or DEFAULT_SHELL
    payload: dict[str, Any] = {
        "command": entry.command,
        "shell": shell,
        "stdin": entry.stdin,
        "user": entry.user,
        "env": env or None,
    }
    return {key: value for key, value in payload.items() if value is not None}


def build_job_name(entry: CrontabEntry, prefix: str) -> str:
    """A name by the command and its user: the line may move, and its schedule may change."""
    facts = "\0".join((entry.user or "", entry.command.strip(), entry.stdin or ""))
    program = entry.command.split()[0].rpartition("/")[2]
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", program).strip("-")[:LONGEST_SLUG]
    digest = hashlib.sha256(facts.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{prefix}{slug or 'command'}-{digest}"


def suggest_interval(cron: Cron) -> tuple[str | None, str | None]:
    """The interval that has the same rhythm, if there is one, and what would be different."""
    interval = find_interval(cron)
    if interval is None:
        return None, None
    length = describe_duration(interval)
    differs = f"where in each {length} it beats is not fixed, and Evenbeat may choose it"
    if cron.zone != "UTC" and interval >= timedelta(hours=1):
        differs += f"; it does not follow the clock changes of {cron.zone}"
    return Every(interval).words(), differs


def find_interval(cron: Cron) -> timedelta | None:
    """The distance of its beats, if it is always the same while no clock changes."""
    plain = Timetable(replace(cron, zone="UTC"))
    beats = plain.next_beats(_START, _SAMPLE)
    gaps = {later - earlier for earlier, later in pairwise(beats)}
    # A hundred beats may lie within one day: the average over the years must be the same, too.
    return gaps.pop() if gaps == {plain.effective_period(_START)} else None
