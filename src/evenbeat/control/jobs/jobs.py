"""What people do with jobs: `eb.jobs` with all its methods."""

from dataclasses import replace
from uuid import UUID

from evenbeat.control.jobs import actions
from evenbeat.control.jobs.actions import ActionResult
from evenbeat.control.jobs.adding import JobAdder
from evenbeat.control.jobs.validation import can_node_run, unserved_warnings
from evenbeat.core.errors import Conflict, InvalidInput, NotFound
from evenbeat.core.jobs.filters import Filter
from evenbeat.core.jobs.ids import read_uid
from evenbeat.core.jobs.lifecycle import Action
from evenbeat.core.jobs.model import Definition, Job
from evenbeat.core.ops.audit import PYTHON, Actor
from evenbeat.core.ops.explain import ExplanationContext, explain_job
from evenbeat.core.suggestions import did_you_mean
from evenbeat.store.database import clock
from evenbeat.store.jobs import actions as store_actions
from evenbeat.store.jobs import jobs
from evenbeat.store.jobs.actions import JobVersion
from evenbeat.store.jobs.jobs import UnreadableDefinition
from evenbeat.store.ops import maintenance, nodes


class Jobs(JobAdder):
    """The jobs of one database. How jobs are added is in `adding`."""

    async def get(self, uid: UUID, *, with_deleted: bool = False) -> Job:
        return await jobs.find_job(self._database, uid, with_deleted=with_deleted)

    async def find(self, name_or_id: str) -> Job:
        """The job of this name or id. A text that is an id is never taken for a name."""
        uid = read_uid(name_or_id)
        if uid is not None:
            return await self.get(uid)
        job = await jobs.find_job_by_name(self._database, name_or_id)
        if job is None:
            known = await jobs.find_similar_names(self._database, name_or_id)
            raise NotFound(f"no job is named {name_or_id!r}{did_you_mean(name_or_id, known)}")
        return job

    async def explain(self, uid: UUID) -> str:
        """The job's situation and what happens next, in a sentence or two."""
        job = await self.get(uid)
        living = [node for node in await nodes.list_nodes(self._database, dead=0) if node.is_alive]
        kind, runs_on = job.definition.kind, job.definition.runs_on
        serving = [node for node in living if can_node_run(node, kind, runs_on)]
        paused = await maintenance.read_maintenance(self._database)
        group = job.definition.group
        around = ExplanationContext(
            live_nodes=len(living),
            serving_nodes=len(serving),
            blocked_by=group and f"group {group.key}",
            running_on=job.pulse.node,
            running_since=job.pulse.last_started_at,
            maintenance=paused and paused.reason,
        )
        return explain_job(job, await clock.now(self._database), around)

    async def run(self, uid: UUID, *, by: Actor = PYTHON) -> Job:
        """Run the job once, now; its schedule stays. If a retry waits, the retry runs now instead.

        A paused or disabled job runs once and stays so. Refused while it runs.
        """
        return await self._do(Action.RUN, uid, by)

    async def pause(self, uid: UUID, *, by: Actor = PYTHON) -> Job:
        """Keep the schedule, but start no runs by it. A current run finishes."""
        return await self._do(Action.PAUSE, uid, by)

    async def resume(self, uid: UUID, *, by: Actor = PYTHON) -> Job:
        """Resume the schedule at the first beat from now. A one-off job still gets its only beat.

        If the job is running, a pause that waits for the end of the run is withdrawn.
        """
        return await self._do(Action.RESUME, uid, by)

    async def retry(self, uid: UUID, *, by: Actor = PYTHON) -> Job:
        """Run a job that has ended again: now, and then by its schedule."""
        return await self._do(Action.RETRY, uid, by)

    async def cancel(self, uid: UUID, *, by: Actor = PYTHON) -> Job:
        """Stop the job for good. Its node stops a current run."""
        return await self._do(Action.CANCEL, uid, by)

    async def release(self, uid: UUID, *, by: Actor = PYTHON) -> Job:
        """Take a run from a node that is stuck. The job is due at once, and no attempt is counted.

        What that node still writes about the run is refused. If the node is alive, it notices
        within seconds and stops the handler.
        """
        return await self._do(Action.RELEASE, uid, by)

    async def enable(self, uid: UUID, *, by: Actor = PYTHON) -> Job:
        """The same as resume, for a disabled job."""
        return await self._do(Action.ENABLE, uid, by)

    async def disable(self, uid: UUID, *, by: Actor = PYTHON) -> Job:
        """Start no runs until the job is enabled. A current run finishes."""
        return await self._do(Action.DISABLE, uid, by)

    async def edit(
        self,
        uid: UUID,
        definition: Definition,
        *,
        version: int | None = None,
        switch: Action | None = None,
        by: Actor = PYTHON,
        dry_run: bool = False,
    ) -> Job:
        """Give the job another definition, if it is still at `version`.

        A current run keeps the old definition. No beat is lost by an edit and none runs twice. The
        old definition is kept as a version. `switch` is `Action.ENABLE` or `Action.DISABLE`, done
        in the transaction of the edit: if the job refuses one, neither is done. `dry_run` does all
        of it, rolls back, and returns the job as it would be.
        """
        if switch not in (None, Action.ENABLE, Action.DISABLE):
            raise InvalidInput("switch", "must be enable or disable")
        to = await self.resolve_definition(definition)
        if dry_run:
            job = await actions.try_edit(
                self._database, uid, to, by=by, version=version, switch=switch
            )
            return replace(
                job, warnings=(*job.warnings, *await unserved_warnings(self._database, [to]))
            )
        return await self._edit(uid, to, by=by, version=version, switch=switch)

    async def delete(self, uid: UUID, *, by: Actor = PYTHON) -> None:
        """Delete the job and stop its run. Its name is free at once; its history stays."""
        await self._act_on_one(Action.DELETE, uid, by)

    async def versions(self, uid: UUID) -> list[JobVersion]:
        """Every definition that the job has had, the current one first. The job may be deleted."""
        return await store_actions.list_versions(
            self._database, await jobs.find_job_id(self._database, uid)
        )

    async def restore(self, uid: UUID, version: int, *, by: Actor = PYTHON) -> Job:
        """Edit the job back to a definition that it had."""
        found = next((each for each in await self.versions(uid) if each.number == version), None)
        if found is None:
            raise NotFound(f"job {uid} has no version {version}")
        if isinstance(found.definition, UnreadableDefinition):
            raise Conflict(f"version {version} cannot be restored: {found.definition.error}")
        return await self.edit(uid, found.definition, by=by)

    async def act(
        self,
        action: Action,
        chosen: Filter,
        *,
        by: Actor = PYTHON,
        dry_run: bool = False,
        skip_refused: bool = False,
    ) -> ActionResult:
        """Do the action to every job that matches, up to 10,000, in one transaction: all or none.

        `dry_run` decides for every job, but writes nothing. `skip_refused` leaves out the jobs
        whose state does not allow the action.
        """
        if action is Action.EDIT:
            raise InvalidInput("action", "edit takes one job and its definition")
        result = await actions.act(
            self._database, action, chosen, by=by, dry_run=dry_run, skip_refused=skip_refused
        )
        if not dry_run and action in actions.MAP_CHANGING_ACTIONS:
            await self._placer.place(result.changed)
        return result

    async def _do(self, action: Action, uid: UUID, by: Actor) -> Job:
        await self._act_on_one(action, uid, by)
        return await self.get(uid)

    async def _act_on_one(self, action: Action, uid: UUID, by: Actor) -> None:
        if not (await self.act(action, Filter.one(uid), by=by)).changed:
            raise NotFound(f"no job {uid}")
