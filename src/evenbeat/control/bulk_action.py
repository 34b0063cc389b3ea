"""One action on many things, on all of them or on none: the same way for jobs and dead letters.

Find what the filter matches and lock it in the order of ids, decide for each one, and write all of
it with its audit in one transaction. After the commit, wake the nodes and log what was done.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Generic, TypeVar

from evenbeat.core.errors import Conflict, InvalidInput
from evenbeat.core.limits import MOST_ACTED_ON_AT_ONCE
from evenbeat.core.ops.audit import Actor, NewAuditEntry
from evenbeat.observe import log
from evenbeat.store.database.pool import Database, Session
from evenbeat.store.ops import audit

# How many refusals an error message names.
MOST_NAMED = 5

ActionT = TypeVar("ActionT", bound=StrEnum)
FoundT = TypeVar("FoundT")
DecidedT = TypeVar("DecidedT")
IdT = TypeVar("IdT")


@dataclass(frozen=True, slots=True)
class Refusal(Generic[IdT]):
    """One that does not allow the action now, and why. `shown_as` names it to people."""

    id: IdT
    shown_as: str
    error: Conflict
    name: str | None = None

    def __str__(self) -> str:
        return f"{self.shown_as}: {self.error}"


@dataclass(frozen=True, slots=True)
class BulkResult(Generic[ActionT, IdT]):
    """What an action did, or with `is_dry_run` would have done."""

    action: ActionT
    changed: tuple[IdT, ...]
    refused: tuple[Refusal[IdT], ...]
    is_dry_run: bool = False


@dataclass(frozen=True, slots=True)
class BulkDecision(Generic[DecidedT, IdT]):
    """Those that allow the action, with what becomes of each, and those that refuse it."""

    ready: Sequence[DecidedT]
    refused: tuple[Refusal[IdT], ...]


class BulkAction(ABC, Generic[ActionT, FoundT, DecidedT, IdT]):
    """One request to do something to all that a filter matches. Used once."""

    noun: ClassVar[str]

    def __init__(self, action: ActionT, by: Actor) -> None:
        self.action = action
        self.by = by

    @abstractmethod
    async def find(self, session: Session, *, limit: int, locked: bool) -> Sequence[FoundT]:
        """Up to `limit` that match, in the order of their ids; `locked` until the transaction ends.

        Calls `check_count` before it locks anything, where that takes a statement of its own.
        """

    @abstractmethod
    async def decide(
        self, session: Session, found: Sequence[FoundT], *, locked: bool
    ) -> BulkDecision[DecidedT, IdT]:
        """What becomes of each, or why it refuses."""

    @abstractmethod
    async def write(self, session: Session, ready: Sequence[DecidedT]) -> None:
        """Write what was decided."""

    @abstractmethod
    def id_of(self, decided: DecidedT) -> IdT: ...

    @abstractmethod
    def audit_entry(self, decided: DecidedT) -> NewAuditEntry:
        """What the audit keeps of it; asked for after `write`."""

    @abstractmethod
    def log_entry(self, decided: DecidedT) -> tuple[str, dict[str, Any]]:
        """The event of the log, and its fields besides the action and the actor."""

    async def after_commit(self, database: Database, ready: Sequence[DecidedT]) -> None:
        """Tell the nodes, where they have something new to do."""

    def check_count(self, count: int) -> None:
        if count > MOST_ACTED_ON_AT_ONCE:
            raise InvalidInput(
                "filter", f"finds more than {MOST_ACTED_ON_AT_ONCE} {self.noun}: narrow it down"
            )


AnyBulkAction = BulkAction[ActionT, Any, DecidedT, IdT]


async def run_bulk_action(
    database: Database,
    request: AnyBulkAction[ActionT, DecidedT, IdT],
    *,
    dry_run: bool = False,
    skip_refused: bool = False,
) -> BulkResult[ActionT, IdT]:
    """Do it to all or to none: one that refuses stops it, unless refusals are to be skipped."""
    if dry_run:
        decision = await decide_bulk_action(database, request, locked=False)
    else:
        async with database.transaction() as session:
            decision = await write_bulk_action(session, request, skip_refused=skip_refused)
        await finish_bulk_action(database, request, decision)
    changed = tuple(request.id_of(each) for each in decision.ready)
    return BulkResult(request.action, changed, decision.refused, dry_run)


async def decide_bulk_action(
    session: Session, request: AnyBulkAction[ActionT, DecidedT, IdT], *, locked: bool
) -> BulkDecision[DecidedT, IdT]:
    found = await request.find(session, limit=MOST_ACTED_ON_AT_ONCE + 1, locked=locked)
    request.check_count(len(found))
    return await request.decide(session, found, locked=locked)


async def write_bulk_action(
    session: Session,
    request: AnyBulkAction[ActionT, DecidedT, IdT],
    *,
    skip_refused: bool = False,
) -> BulkDecision[DecidedT, IdT]:
    """The part of an action that belongs to a transaction; the caller finishes it after that."""
    decision = await decide_bulk_action(session, request, locked=True)
    if decision.refused and not skip_refused:
        raise refusal_error(request, decision)
    if decision.ready:
        await request.write(session, decision.ready)
        entries = [request.audit_entry(each) for each in decision.ready]
        await audit.write_audit(session, entries, by=request.by)
    return decision


async def finish_bulk_action(
    database: Database,
    request: AnyBulkAction[ActionT, DecidedT, IdT],
    decision: BulkDecision[DecidedT, IdT],
) -> None:
    """What is done after the commit."""
    await request.after_commit(database, decision.ready)
    for each in decision.ready:
        event, fields = request.log_entry(each)
        log.get_logger().info(event, **fields, action=request.action, actor=request.by.name)


def refusal_error(
    request: AnyBulkAction[ActionT, DecidedT, IdT], decision: BulkDecision[DecidedT, IdT]
) -> Conflict:
    """The error of the only one; of several, how many refuse and the first of them."""
    refused, total = decision.refused, len(decision.refused) + len(decision.ready)
    if total == 1:
        return refused[0].error
    named = "; ".join(map(str, refused[:MOST_NAMED]))
    more = f"; and {len(refused) - MOST_NAMED} more" if len(refused) > MOST_NAMED else ""
    return Conflict(
        f"cannot {request.action} {len(refused)} of {total} {request.noun}, so none was changed:"
        f" {named}{more}"
    )
