"""Every error Evenbeat raises on purpose, in one tree.

    EvenbeatError
    ├── InvalidInput          what was sent cannot be accepted; names the field
    │   ├── InvalidSettings   the same, for settings
    │   └── UnknownKind       no such kind of job; says which there are
    ├── NotFound              no such job, run, …
    │   └── NoSuchSecret      a payload refers to a secret that is not there
    ├── Conflict              not in this state, or not any more
    │   ├── IllegalTransition
    │   └── PreconditionFailed   changed since the caller read it
    ├── NotPermitted          signed in, but the role does not allow it
    ├── NotSignedIn           no token, or not a good one
    ├── AddressRefused        an outbound request to where none may go
    ├── RunStopped            ends a function in a thread whose run is to stop
    ├── TooManyRequests       faster than the limit; says when to come back
    ├── StoreUnavailable      the database cannot be reached or does not answer
    ├── MigrationFailed       the schema is not what this version needs
    └── PostgresFailed        the embedded server cannot be started, reached or stopped

A message says what, which, and what to do about it: faces show it to people as it stands.
"""

from collections.abc import Iterable
from dataclasses import dataclass


class EvenbeatError(Exception):
    """The root: `except EvenbeatError` catches whatever Evenbeat raises on purpose."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """One field that cannot be accepted, and why. The path is dotted: `schedule.cron`."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class InvalidInput(EvenbeatError):
    """What was sent cannot be accepted; `errors` names every field at fault."""

    def __init__(self, field: str, message: str, *, more: Iterable[FieldError] = ()) -> None:
        self.errors = (FieldError(field, message), *more)
        super().__init__("; ".join(map(str, self.errors)))


class InvalidSettings(InvalidInput):
    """A setting cannot be accepted: the process must not start with it."""


class UnknownKind(InvalidInput):
    """No node has ever served this kind; `known` are the kinds that some node has served."""

    def __init__(self, kind: str, known: Iterable[str]) -> None:
        self.kind, self.known = kind, tuple(known)
        super().__init__("kind", f"no kind {kind!r}; known kinds: {', '.join(self.known)}")


class NotFound(EvenbeatError):
    """No such thing here."""


class NoSuchSecret(NotFound):
    """A payload refers to a secret that is not there: trying again cannot help."""


class Conflict(EvenbeatError):
    """The request is fine in itself, but not in the state things are in."""


class IllegalTransition(Conflict):
    """The job's state does not allow this action; `allowed` says which ones it allows."""

    def __init__(self, action: str, state: str, allowed: Iterable[str] = ()) -> None:
        self.action, self.state, self.allowed = action, state, tuple(allowed)
        choices = ", ".join(self.allowed) or "nothing"
        super().__init__(f"cannot {action} a job that is {state}; allowed now: {choices}")


class PreconditionFailed(Conflict):
    """It has been changed since the caller read it."""


class NotSignedIn(EvenbeatError):
    """No token came with the request, or not a good one."""


class NotPermitted(EvenbeatError):
    """The role of the caller does not allow this."""


class AddressRefused(EvenbeatError):
    """An outbound request would go to an address that is closed to them."""


class RunStopped(EvenbeatError):
    """Ends a function in a thread when it asks whether its run is to stop, and it is."""


class TooManyRequests(EvenbeatError):
    """The caller asks too often; after `retry_after` seconds it may ask again."""

    def __init__(self, what: str, retry_after: float) -> None:
        self.retry_after = retry_after
        super().__init__(f"too many {what}: try again in {retry_after:.1f} s")


class StoreUnavailable(EvenbeatError):
    """The database cannot be reached, or does not answer in time."""


class MigrationFailed(EvenbeatError):
    """The schema is not what this version needs, and cannot be made so."""


class PostgresFailed(EvenbeatError):
    """The embedded server cannot be started, reached or stopped."""
