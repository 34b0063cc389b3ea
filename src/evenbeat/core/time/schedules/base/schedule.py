"""What every kind of schedule keeps to: its options, its promise, and how it is read."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, ClassVar, Self, cast

from evenbeat.core.errors import InvalidInput
from evenbeat.core.time.durations import (
    EXACT_DURATION,
    check_plain_text,
    format_duration,
    parse_duration,
)
from evenbeat.core.time.schedules.base.instants import BEFORE_FIRST, LAST_INSTANT, as_utc
from evenbeat.core.time.schedules.base.zones import Dst

# The register of kinds, by name.
KINDS: dict[str, type["Schedule"]] = {}
_EXAMPLES = '"every 30m", "daily 06:00 Europe/Berlin", "sun 02:00", "0 8 * * MON-FRI", "now"'
# Crontabs name the zone in front, with either of these.
_ALIASES = {"CRON_TZ": "zone", "TZ": "zone"}


@dataclass(frozen=True, slots=True)
class RuleOptions:
    """The options that were given; None is "not said"."""

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


class Schedule(ABC):
    """A rule that names beats: a value, the same for ever, that knows no clock.

    Beats lie between 2000 and 2200. Subclasses with a `kind` register themselves. A kind says how
    it is written after its name (`words`, `value`), and reads the same back.
    """

    __slots__ = ()

    kind: ClassVar[str]
    allows: ClassVar[frozenset[str]] = frozenset()
    is_recurring: ClassVar[bool] = True

    def __init_subclass__(cls) -> None:
        # A dataclass with slots is made twice; the second, which counts, replaces the first.
        if "kind" in cls.__dict__:
            KINDS[cls.kind] = cls

    @classmethod
    def claims(cls, words: Sequence[str]) -> bool:
        """Whether a text of these words is of this kind, though it does not begin with its name."""
        del words
        return False

    @classmethod
    @abstractmethod
    def from_words(cls, words: Sequence[str], options: RuleOptions) -> Self:
        """Read the words of a text, less the name of the kind in front."""

    @classmethod
    @abstractmethod
    def from_value(cls, value: Any, options: RuleOptions) -> Self:
        """Read what stands under the kind's name in an object."""

    @property
    def is_definite(self) -> bool:
        """Whether the beats are known, with nothing left for planning or a name to decide."""
        return True

    def next_after(self, instant: datetime) -> datetime | None:
        """The smallest beat strictly later, None if there is none."""
        instant = as_utc(instant)
        if instant >= LAST_INSTANT:
            return None
        beat = self._next_after(max(instant, BEFORE_FIRST))
        return None if beat is None or beat > LAST_INSTANT else beat

    @abstractmethod
    def _next_after(self, instant: datetime) -> datetime | None: ...

    def planned_at(self, instant: datetime) -> "Schedule":
        """This schedule with everything decided that planning decides, if nothing else did."""
        del instant
        return self

    def seeded(self, name: str) -> "Schedule":
        """This schedule with its H fields, if it has any, chosen by the job's name."""
        del name
        return self

    def effective_period(self, now: datetime) -> timedelta | None:
        """The average distance of the beats to come; None where there is at most one."""
        del now
        return None

    def to_text(self) -> str:
        return " ".join((self.words(), *self.options().to_words()))

    def to_object(self) -> dict[str, Any]:
        return {self.kind: self.value()} | self.options().to_object()

    @abstractmethod
    def describe(self) -> str:
        """The rule in words that follow "runs"."""

    @abstractmethod
    def words(self) -> str:
        """The rule as text, without its options."""

    @abstractmethod
    def value(self) -> Any:
        """The rule as JSON, without its options."""

    def options(self) -> RuleOptions:
        return RuleOptions()

    def __str__(self) -> str:
        return self.to_text()


def parse_schedule(text: Any) -> Schedule:
    """Read a schedule from its text."""
    words, given = split_options(check_plain_text(text, "schedule").split())
    if not words:
        raise InvalidInput("schedule", f"is empty; write for example {_EXAMPLES}")
    kind = KINDS.get(words[0].lower())
    if kind is not None:
        del words[0]
    else:
        kind = next((kind for kind in KINDS.values() if kind.claims(words)), None)
    if kind is None:
        raise InvalidInput("schedule", f"is not understood; write for example {_EXAMPLES}")
    return kind.from_words(
        words, RuleOptions.from_object(given).restricted_to(kind.allows, kind.kind)
    )


def parse_schedule_object(value: Any) -> Schedule:
    """Read a schedule from its object; a string stands for its text."""
    if isinstance(value, str):
        return parse_schedule(value)
    if not isinstance(value, dict):
        raise InvalidInput("schedule", f"must be an object or a text, for example {_EXAMPLES}")
    given = cast("dict[Any, Any]", value)
    kinds = [name for name in given if name in KINDS]
    for name in given:
        if name not in KINDS and not is_option(name):
            raise InvalidInput(f"schedule.{str(name)[:40]}", "is not a field of a schedule")
    if len(kinds) != 1:
        raise InvalidInput("schedule", f"must have exactly one of {', '.join(sorted(KINDS))}")
    kind = KINDS[kinds[0]]
    said = {name: said for name, said in given.items() if is_option(name) and said is not None}
    return kind.from_value(
        given[kind.kind], RuleOptions.from_object(said).restricted_to(kind.allows, kind.kind)
    )
