"""The routes of templates: jobs with blanks, and jobs made from them."""

from typing import Annotated

from fastapi import APIRouter, Path, Response

from evenbeat.api.v1.jobs.jobs import answer_created
from evenbeat.api.v1.jobs.wire.job_out import JobOut
from evenbeat.api.v1.jobs.wire.template import FillIn, TemplateIn, TemplateOut, TemplatesOut
from evenbeat.core.jobs.templates import NAME
from evenbeat.core.limits import LONGEST_TEMPLATE_NAME
from evenbeat.core.ops.access import Role
from evenbeat.web.auth import Caller, needs
from evenbeat.web.etags import set_etag
from evenbeat.web.idempotency import IdempotentRoute
from evenbeat.web.probes import App

VIEWER, OPERATOR = [needs(Role.VIEWER)], [needs(Role.OPERATOR)]
TemplateName = Annotated[str, Path(max_length=LONGEST_TEMPLATE_NAME, pattern=f"^{NAME.pattern}$")]

router = APIRouter(prefix="/api/v1/templates", tags=["templates"], route_class=IdempotentRoute)


@router.get("", dependencies=VIEWER)
async def list_templates(app: App) -> TemplatesOut:
    """All templates by name."""
    return TemplatesOut.from_core(await app.templates.all())


@router.get("/{name}", dependencies=VIEWER)
async def get_template(name: TemplateName, app: App, response: Response) -> TemplateOut:
    """A template."""
    template = await app.templates.get(name)
    return set_etag(response, template.version, TemplateOut.from_core(template))


@router.put("/{name}", dependencies=OPERATOR)
async def put_template(
    name: TemplateName, body: TemplateIn, app: App, caller: Caller, response: Response
) -> TemplateOut:
    """Make a template, or change the one of this name; jobs made of it stay as they are."""
    template = await app.templates.put(body.to_core(name), by=caller.actor)
    return set_etag(response, template.version, TemplateOut.from_core(template))


@router.delete("/{name}", status_code=204, dependencies=OPERATOR)
async def delete_template(name: TemplateName, app: App, caller: Caller) -> None:
    """Remove a template; jobs made of it stay."""
    await app.templates.delete(name, by=caller.actor)


@router.post(
    "/{name}/jobs",
    status_code=201,
    dependencies=OPERATOR,
    responses={409: {"description": "the name of the job is taken"}},
)
async def create_job_from_template(
    name: TemplateName, body: FillIn, app: App, caller: Caller, response: Response
) -> JobOut:
    """Make a job from a template."""
    job_in = body.fill_in(await app.templates.get(name))
    job = await app.jobs.add(job_in.to_core(), dedupe_key=job_in.dedupe_key, by=caller.actor)
    return await answer_created(job, app, response)
