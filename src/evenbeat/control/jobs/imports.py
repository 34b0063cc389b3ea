"""Imports the jobs of another scheduler: previews each line, then adds all new jobs or none."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from evenbeat.control.bulk_action import write_bulk_action
from evenbeat.control.jobs.actions import JobAction
from evenbeat.control.jobs.jobs import Jobs
from evenbeat.core.errors import InvalidInput
from evenbeat.core.jobs.filters import Filter
from evenbeat.core.jobs.imports import ImportCandidate, ImportStatus
from evenbeat.core.jobs.lifecycle import Action
from evenbeat.core.limits import MOST_ACTED_ON_AT_ONCE
from evenbeat.core.ops.audit import Actor
from evenbeat.store.database.pool import Database, Session, transaction_on


@dataclass(frozen=True, slots=True)
class ImportFinding:
    """A candidate and what the import does with it; `why`, if it is not added as it stands."""

    candidate: ImportCandidate
    fate: ImportStatus
    why: str | None = None


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What the import does with each line, in order; comments and empty lines are left out."""

    findings: tuple[ImportFinding, ...]

    def candidates_with(self, fate: ImportStatus) -> list[ImportCandidate]:
        return [each.candidate for each in self.findings if each.fate is fate]

    def counts(self) -> dict[str, int]:
        """How many lines have each fate, and how many a person should review."""
        fates = Counter(each.fate for each in self.findings)
        return {fate.value: fates[fate] for fate in ImportStatus} | {
            "could be an interval": sum(bool(each.candidate.could_be) for each in self.findings),
            "to review": sum(bool(each.candidate.review) for each in self.findings),
        }


class Imports:
    """Imports jobs into one database."""

    def __init__(self, database: Database, jobs: Jobs) -> None:
        self._database = database
        self._jobs = jobs

    async def preview(self, candidates: Iterable[ImportCandidate]) -> ImportReport:
        """What the import would do with each candidate. Nothing is written."""
        return ImportReport(tuple([await self._judge(each) for each in candidates]))

    async def _judge(self, candidate: ImportCandidate) -> ImportFinding:
        if candidate.definition is None:
            fate = ImportStatus.REFUSED if candidate.why else ImportStatus.SETTING
            return ImportFinding(candidate, fate, candidate.why)
        try:
            is_same = await self._jobs.is_put(candidate.definition)
        except InvalidInput as error:
            return ImportFinding(candidate, ImportStatus.REFUSED, str(error))
        if is_same is None:
            return ImportFinding(candidate, ImportStatus.NEW)
        if is_same:
            return ImportFinding(candidate, ImportStatus.SAME)
        return ImportFinding(
            candidate,
            ImportStatus.DIFFERENT,
            "a job of this name is not as the line says; it stays so",
        )

    async def add_new_jobs(self, report: ImportReport, *, by: Actor) -> int:
        """Add the new jobs, all or none; those that were paused or disabled are added so."""
        new = report.candidates_with(ImportStatus.NEW)
        if not new:
            return 0
        async with (
            self._database.connection() as connection,
            transaction_on(connection, self._database.clock) as session,
        ):
            definitions = [each.definition for each in new if each.definition]
            batch = await self._jobs.add_many(definitions, connection=connection, by=by)
            for action in (Action.PAUSE, Action.DISABLE):
                uids = [
                    uid for uid, each in zip(batch.uids, new, strict=True) if each.aside is action
                ]
                await rest_imported_jobs(session, action, uids, by)
        return len(new)


async def rest_imported_jobs(
    session: Session, action: Action, uids: Sequence[UUID], by: Actor
) -> None:
    """Pause or disable jobs in the transaction that adds them: otherwise a node could run one."""
    for start in range(0, len(uids), MOST_ACTED_ON_AT_ONCE):
        chosen = Filter(uids=frozenset(uids[start : start + MOST_ACTED_ON_AT_ONCE]))
        await write_bulk_action(session, JobAction(action, chosen, by))
