"""Jobs that the code declares: put by name when a process starts, and never removed."""

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
    """Put the declared jobs, and warn of jobs that these modules no longer declare.

    Those stay, since another version of the code may still declare them.
    """
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
