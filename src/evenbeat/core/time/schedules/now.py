"""Once, as soon as it is planned."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Self

from evenbeat.core.errors import InvalidInput
from evenbeat.core.time.schedules.base.schedule import RuleOptions, Schedule
from evenbeat.core.time.schedules.once import Once

FIELD = "schedule.now"


@dataclass(frozen=True, slots=True)
class Now(Schedule):
    """One beat, at the instant of planning: planning turns it into Once."""

    kind: ClassVar[str] = "now"
    is_recurring: ClassVar[bool] = False

    @classmethod
    def from_words(cls, words: Sequence[str], options: RuleOptions) -> Self:
        del options
        if words:
            raise InvalidInput(FIELD, "stands alone")
        return cls()

    @classmethod
    def from_value(cls, value: Any, options: RuleOptions) -> Self:
        del options
        if value is not True:
            raise InvalidInput(FIELD, "must be true")
        return cls()

    @property
    def is_definite(self) -> bool:
        return False

    def planned_at(self, instant: datetime) -> Schedule:
        return Once(instant)

    def _next_after(self, instant: datetime) -> datetime | None:
        raise InvalidInput(FIELD, "has no beat before it is planned")

    def describe(self) -> str:
        return "now"

    def words(self) -> str:
        return "now"

    def value(self) -> bool:
        return True
