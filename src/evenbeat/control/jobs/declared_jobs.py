"""Jobs that code declares: put by name whenever a process starts, and never removed by it."""

from collections.abc import Iterable, Mapping

from evenbeat.control.jobs.jobs import Jobs
from evenbeat.control.jobs.listing import Listing
from evenbeat.core.jobs.filters import Filter
from evenbeat.core.jobs.model import DECLARED_IN, Definition, Job
from evenbeat.observe import log

PAGE = 1000


async def put_declared_jobs(
    jobs: Jobs, listing: Listing, declared: Mapping[str, Definition], modules: Iterable[str]
) -> None:
    """Make the jobs what the code says. Those of its modules that it says nothing of any more are
    told of, and left: another version of the code may still want them."""
    for definition in declared.values():
        await jobs.put(definition)
    for module in sorted(modules):
        page = await listing.page(Filter(labels={DECLARED_IN: module}), limit=PAGE)
        for job in page.jobs:
            if job.definition.name not in declared:
                warn_undeclared_job(job)


def warn_undeclared_job(job: Job) -> None:
    log.get_logger().warning(
        log.NOT_DECLARED,
        job_id=str(job.uid),
        name=job.definition.name,
        declared_in=job.definition.labels[DECLARED_IN],
    )
