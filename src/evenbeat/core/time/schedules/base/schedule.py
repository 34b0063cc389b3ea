"""The promise that every kind of schedule keeps, and the register of kinds."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, Self

from evenbeat.core.time.schedules.base.instants import BEFORE_FIRST, LAST_INSTANT, as_utc
from evenbeat.core.time.schedules.base.options import RuleOptions

KINDS: dict[str, type["Schedule"]] = {}


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
