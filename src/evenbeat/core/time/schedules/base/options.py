"""The options next to a schedule's rule: zone, clock changes, phase, seed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any, Self

from evenbeat.core.errors import InvalidInput
from evenbeat.core.time.durations import (
    EXACT_DURATION,
    check_plain_text,
    format_duration,
    parse_duration,
)
from evenbeat.core.time.schedules.base.zones import Dst

# Crontabs name the zone in front, with either of these.
_ALIASES = {"CRON_TZ": "zone", "TZ": "zone"}


@dataclass(frozen=True, slots=True)
class RuleOptions:
    """The options that were given; None: not given."""

    zone: str | None = None
    dst: Dst | None = None
    phase: timedelta | None = None
    seed: str | None = None

    @classmethod
    def from_object(cls, given: Mapping[str, Any]) -> Self:
        return cls(**{name: _READERS[name](value) for name, value in given.items()})

    def to_words(self) -> list[str]:
        words = [self.zone] if self.zone not in (None, "UTC") else []
        if self.dst is not None:
            words.append(f"dst={self.dst}")
        if self.phase is not None:
            words.append(f"phase={format_duration(self.phase)}")
        if self.seed is not None:
            words.append(f"seed={self.seed}")
        return words

    def to_object(self) -> dict[str, Any]:
        written: dict[str, Any] = {}
        if self.zone is not None:
            written["zone"] = self.zone
        if self.dst is not None:
            written["dst"] = {"gap": self.dst.gap, "overlap": self.dst.overlap}
        if self.phase is not None:
            written["phase"] = format_duration(self.phase)
        if self.seed is not None:
            written["seed"] = self.seed
        return written

    def restricted_to(self, allowed: Iterable[str], kind: str) -> Self:
        """These options, if the kind has all that were given."""
        for field in fields(self):
            if getattr(self, field.name) is not None and field.name not in allowed:
                raise InvalidInput(
                    f"schedule.{field.name}", f"a schedule of kind {kind!r} has no {field.name}"
                )
        return self


def split_options(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Part the words of a rule from those of the form `name=value`."""
    rule: list[str] = []
    given: dict[str, str] = {}
    for word in words:
        name, separator, value = word.partition("=")
        if not separator:
            rule.append(word)
            continue
        name = _ALIASES.get(name, name)
        if name not in _READERS:
            raise InvalidInput("schedule", f"{word[:40]!r} is not understood")
        if name in given:
            raise InvalidInput(f"schedule.{name}", "is given twice")
        given[name] = value
    return rule, given


def is_option(name: str) -> bool:
    return name in _READERS


def _read_zone(value: Any) -> str:
    return check_plain_text(value, "schedule.zone")


def _read_phase(value: Any) -> timedelta:
    return parse_duration(value, "schedule.phase", EXACT_DURATION)


def _read_seed(value: Any) -> str:
    return check_plain_text(value, "schedule.seed")


_READERS: dict[str, Callable[[Any], Any]] = {
    "zone": _read_zone,
    "dst": Dst.parse,
    "phase": _read_phase,
    "seed": _read_seed,
}
