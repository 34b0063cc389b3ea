"""How long a failed run waits until it is tried again, and which errors have their own rules."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from datetime import timedelta
from hashlib import blake2b
from typing import Any, ClassVar, cast

from evenbeat.core.errors import FieldError, InvalidInput
from evenbeat.core.limits import LONGEST_BACKOFF, MOST_ATTEMPTS

_ZERO = timedelta(0)
_MICROSECOND = timedelta(microseconds=1)
# 2^40 microseconds are more than LONGEST, so that a larger exponent changes nothing.
_HIGHEST_EXPONENT = 40


@dataclass(frozen=True, slots=True)
class Backoff(ABC):
    """The wait after the n-th failed attempt: never negative, never more than the cap.

    `jitter` is the fraction of the wait that may be taken off it. It only shortens: spread upwards,
    the jobs that have reached their cap would all come back at the same instant.
    """

    kind: ClassVar[str]
    jitter: float = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        _raise_faults(_faults(self))

    @abstractmethod
    def _wait(self, attempt: int) -> timedelta: ...

    def delay(self, attempt: int, seed: int | tuple[int, ...] = 0) -> timedelta:
        """The wait after `attempt` (from 1); the same seed always gives the same wait."""
        attempt = max(attempt, 1)
        wait = self._wait(attempt)
        if not self.jitter:
            return wait
        digest = blake2b(f"{seed}/{attempt}".encode(), digest_size=8).digest()
        return wait * (1 - self.jitter * int.from_bytes(digest) / 2**64)

    def to_object(self) -> dict[str, Any]:
        """As JSON has it: the kind, and every wait in seconds."""
        waits = {
            each.name: _seconds(getattr(self, each.name))
            for each in fields(self)
            if each.name != "jitter"
        }
        return {"kind": self.kind, **waits, "jitter": self.jitter}

    @staticmethod
    def from_object(value: Any, path: str = "backoff") -> "Backoff":
        """The inverse of `to_object`; what is left out has its default."""
        given = _mapping(value, path)
        kind = given.pop("kind", Exponential.kind)
        if not isinstance(kind, str) or kind not in KINDS:
            raise InvalidInput(f"{path}.kind", f"must be one of {', '.join(KINDS)}")
        made, faults = _read_fields(KINDS[kind], given)
        _raise_faults(faults, f"{path}.")
        return KINDS[kind](**made)


@dataclass(frozen=True, slots=True)
class Exponential(Backoff):
    """base, 2·base, 4·base, …"""

    kind: ClassVar[str] = "exponential"
    base: timedelta = timedelta(seconds=60)
    cap: timedelta = timedelta(hours=1)

    def _wait(self, attempt: int) -> timedelta:
        return _capped(self.base, 2 ** min(attempt - 1, _HIGHEST_EXPONENT), self.cap)


@dataclass(frozen=True, slots=True)
class Linear(Backoff):
    """step, 2·step, 3·step, …"""

    kind: ClassVar[str] = "linear"
    step: timedelta = timedelta(seconds=5)
    cap: timedelta = timedelta(hours=1)

    def _wait(self, attempt: int) -> timedelta:
        return _capped(self.step, attempt, self.cap)


@dataclass(frozen=True, slots=True)
class Fixed(Backoff):
    """The same wait every time."""

    kind: ClassVar[str] = "fixed"
    wait: timedelta = timedelta(seconds=60)

    def _wait(self, attempt: int) -> timedelta:
        return self.wait


KINDS: dict[str, type[Backoff]] = {each.kind: each for each in (Exponential, Linear, Fixed)}


@dataclass(frozen=True, slots=True)
class RetryRule:
    """What holds instead for one sort of error: an error type's name, or an error class.

    `max_attempts=1` means that such an error is not tried again.
    """

    error: str
    backoff: Backoff | None = None
    max_attempts: int | None = None

    def __post_init__(self) -> None:
        most = self.max_attempts
        if not self.error:
            raise InvalidInput("error", "must name an error type or an error class")
        if most is not None and (type(most) is not int or not 1 <= most <= MOST_ATTEMPTS):
            raise InvalidInput("max_attempts", f"must be from 1 to {MOST_ATTEMPTS}")

    def to_object(self) -> dict[str, Any]:
        backoff = self.backoff and self.backoff.to_object()
        return {"error": self.error, "backoff": backoff, "max_attempts": self.max_attempts}

    @staticmethod
    def from_object(value: Any, path: str = "retry_rules") -> "RetryRule":
        given = _mapping(value, path)
        error, most = given.pop("error", None), given.pop("max_attempts", None)
        backoff = given.pop("backoff", None)
        faults = [FieldError(name, "is not known here") for name in given]
        if not isinstance(error, str) or not error:
            faults.append(FieldError("error", "must name an error type or an error class"))
        if most is not None and (type(most) is not int or not 1 <= most <= MOST_ATTEMPTS):
            faults.append(FieldError("max_attempts", f"must be from 1 to {MOST_ATTEMPTS}"))
        _raise_faults(faults, f"{path}.")
        wait = None if backoff is None else Backoff.from_object(backoff, f"{path}.backoff")
        return RetryRule(cast("str", error), wait, most)


def find_retry_rule(rules: Iterable[RetryRule], *names: str | None) -> RetryRule | None:
    """The first rule for any of these names; an earlier name goes before an earlier rule."""
    by_error = {rule.error: rule for rule in reversed(list(rules))}
    return next((by_error[name] for name in names if name in by_error), None)


def _capped(unit: timedelta, times: int, cap: timedelta) -> timedelta:
    # In whole numbers: a product of timedeltas would overflow before it is compared with the cap.
    return min(unit // _MICROSECOND * times, cap // _MICROSECOND) * _MICROSECOND


def _seconds(wait: timedelta) -> float:
    seconds = wait.total_seconds()
    return int(seconds) if seconds.is_integer() else seconds


def _faults(backoff: Backoff) -> list[FieldError]:
    faults = [
        FieldError(each.name, f"must be from 0 seconds to {LONGEST_BACKOFF.days} days")
        for each in fields(backoff)
        if each.name != "jitter" and not _ZERO <= getattr(backoff, each.name) <= LONGEST_BACKOFF
    ]
    if not 0 <= backoff.jitter <= 1:
        faults.append(FieldError("jitter", "must be from 0 to 1"))
    return faults


def _read_fields(
    kind: type[Backoff], given: dict[str, Any]
) -> tuple[dict[str, Any], list[FieldError]]:
    made: dict[str, Any] = {}
    faults: list[FieldError] = []
    known = [each.name for each in fields(kind)]
    for name, value in given.items():
        most = 1 if name == "jitter" else LONGEST_BACKOFF.total_seconds()
        if name not in known:
            faults.append(FieldError(name, f"is not known here; known: {', '.join(known)}"))
        elif type(value) not in (int, float) or not 0 <= value <= most:
            unit = "" if name == "jitter" else " seconds"
            faults.append(FieldError(name, f"must be a number from 0 to {most:g}{unit}"))
        else:
            made[name] = float(value) if name == "jitter" else timedelta(seconds=value)
    return made, faults


def _mapping(value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(path, "must be an object")
    return {str(key): each for key, each in cast("dict[object, Any]", value).items()}


def _raise_faults(faults: list[FieldError], prefix: str = "") -> None:
    if faults:
        first, *more = (FieldError(prefix + each.field, each.message) for each in faults)
        raise InvalidInput(first.field, first.message, more=more)
