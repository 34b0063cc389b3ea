"""Cron expressions: 5 fields, or 6 with the seconds first."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, ClassVar, Self

from evenbeat.core.errors import InvalidInput
from evenbeat.core.time.durations import check_plain_text, is_unit
from evenbeat.core.time.schedules.base.cron_hash import (
    build_seed,
    has_hash_fields,
    is_seed,
    resolve_hash_fields,
)
from evenbeat.core.time.schedules.base.cron_pattern import FIELD, CronPattern, parse_pattern
from evenbeat.core.time.schedules.base.schedule import RuleOptions, Schedule, split_options
from evenbeat.core.time.schedules.base.times_of_day import DAYS
from evenbeat.core.time.schedules.base.wall_clock import WallClock, take_zone

ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

_LETTERS_OF_A_WEEKDAY_FIELD = {day.upper() for day in DAYS} | {"H", "L"}


@dataclass(frozen=True, slots=True)
class Cron(WallClock):
    """Beats as a crontab line names them; `H` fields are chosen by the seed."""

    expression: str
    seed: str | None = None

    kind: ClassVar[str] = "cron"
    allows: ClassVar[frozenset[str]] = frozenset({"zone", "dst", "seed"})

    def __post_init__(self) -> None:
        WallClock.__post_init__(self)
        text = " ".join(check_plain_text(self.expression, FIELD).split())
        object.__setattr__(self, "expression", text)
        if self.seed is not None and not is_seed(check_plain_text(self.seed, "schedule.seed")):
            raise InvalidInput("schedule.seed", "must be one word of letters, digits and . _ - :")
        if self.seed is not None and not self.is_spread:
            raise InvalidInput("schedule.seed", "chooses H fields, and this cron has none")
        _pattern(text, self.seed or "")

    @property
    def is_definite(self) -> bool:
        return self.seed is not None or not self.is_spread

    @property
    def is_spread(self) -> bool:
        """Whether there is an H for a name to choose."""
        return has_hash_fields(_fields(self.expression))

    @classmethod
    def claims(cls, words: Sequence[str]) -> bool:
        return words[0].startswith("@") or (len(words) >= 5 and not any(map(is_unit, words)))

    @classmethod
    def from_words(cls, words: Sequence[str], options: RuleOptions) -> Self:
        rest = list(words)
        least = 1 if rest and rest[0].startswith("@") else 5
        named = [rest.pop()] if len(rest) > least and _is_zone(rest[-1]) else []
        zone = take_zone(named, options)
        return cls(" ".join(rest), options.seed, zone=zone, dst=options.dst)

    @classmethod
    def from_value(cls, value: Any, options: RuleOptions) -> Self:
        words, given = split_options(check_plain_text(value, FIELD).split())
        if given and (given.keys() != {"zone"} or options.zone is not None):
            raise InvalidInput(FIELD, "write zone, dst and seed next to the expression")
        zoned = replace(options, zone=given["zone"]) if given else options
        return cls.from_words(words, zoned)

    def seeded(self, name: str) -> Schedule:
        if self.seed is not None or not self.is_spread:
            return self
        return replace(self, seed=build_seed(name))

    def pattern(self) -> CronPattern:
        if not self.is_definite:
            raise InvalidInput("schedule.seed", "H needs a name to choose its values by")
        return _pattern(self.expression, self.seed or "")

    def effective_period(self, now: datetime) -> timedelta:
        del now
        # However H is chosen, the beats are about as many.
        return _pattern(self.expression, self.seed or "").average_distance()

    def describe(self) -> str:
        if not self.is_definite:
            return f"by cron {self.expression}, H chosen by the job's name ({self.zone})"
        explained = self.pattern().explain()
        return f"{explained[:1].lower()}{explained[1:]} ({self.zone})"

    def words(self) -> str:
        return self.expression

    def value(self) -> str:
        return self.expression

    def options(self) -> RuleOptions:
        return RuleOptions(zone=self.zone, dst=self.dst, seed=self.seed)


@lru_cache(maxsize=2048)
def _pattern(expression: str, seed: str) -> CronPattern:
    return parse_pattern(resolve_hash_fields(_fields(expression), seed))


def _fields(expression: str) -> str:
    if not expression.startswith("@"):
        return expression
    fields = ALIASES.get(expression.lower())
    if fields is None:
        why = "there is no boot to run at" if expression.lower() == "@reboot" else "unknown"
        raise InvalidInput(FIELD, f"{expression!r}: {why}; there are {' '.join(ALIASES)}")
    return fields


def _is_zone(word: str) -> bool:
    """Whether the last word is a zone, where it could also be the weekday of a sixth field."""
    letters = 0
    while letters < len(word) and word[letters].isalpha():
        letters += 1
    return letters > 0 and word[:letters].upper() not in _LETTERS_OF_A_WEEKDAY_FIELD
