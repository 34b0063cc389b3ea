"""`evenbeat groups`: the limits of groups, and the jobs that run and wait in them."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated, Any

import typer

from evenbeat.app import Evenbeat
from evenbeat.cli.shell import printing
from evenbeat.cli.shell.app_session import cli_actor, with_app_and_time
from evenbeat.cli.shell.option_sets import expand_option_sets
from evenbeat.cli.shell.options import DataDir, PageOptions
from evenbeat.core.jobs.groups import Group, Rate
from evenbeat.store.jobs.groups import GroupMember, GroupUsage, StoredGroup

app = typer.Typer(help="Groups: jobs that share a limit or a pace.", no_args_is_help=True)

Key = Annotated[str, typer.Argument(help="The group's key, as `evenbeat groups list` shows it.")]
COLUMNS = ("key", "max_running", "rate", "running", "waiting", "waiting_since", "paused_at")
MEMBER_COLUMNS = ("job_id", "name", "doing", "since", "node")


@app.command("list")
@expand_option_sets
def list_groups(
    page: PageOptions,
    search: Annotated[
        str | None, typer.Option(help="Only groups whose key contains this text.")
    ] = None,
    data_dir: DataDir = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """List groups by key, with how many jobs run and wait in each.

    Example: evenbeat groups list --search host:
    """
    found, now = with_app_and_time(
        lambda eb: eb.groups.page(search=search, limit=page.limit, offset=page.offset), data_dir
    )
    if output is printing.Format.JSON:
        from evenbeat.api.v1.jobs.wire.group import GroupsOut

        printing.print_model(GroupsOut.from_core(found, limit=page.limit, offset=page.offset))
        return
    printing.print_table(COLUMNS, [group_row(each, now) for each in found.groups])
    page.print_rest(len(found.groups), found.total)


@app.command("show")
@expand_option_sets
def show_group(
    key: Key,
    page: PageOptions,
    data_dir: DataDir = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """Show a group, the jobs that run in it, and the jobs that wait, first come first.

    Example: evenbeat groups show site
    """
    found, now = with_app_and_time(
        lambda eb: eb.groups.members(key, limit=page.limit, offset=page.offset), data_dir
    )
    if output is printing.Format.JSON:
        from evenbeat.api.v1.jobs.wire.group import MembersOut

        printing.print_model(MembersOut.from_core(found, limit=page.limit, offset=page.offset))
        return
    printing.print_table(COLUMNS, [group_row(found.occupied, now)])
    typer.echo()
    members = [
        *(member_row(each, "runs", now) for each in found.holders),
        *(member_row(each, "waits", now) for each in found.waiting),
    ]
    printing.print_table(MEMBER_COLUMNS, members)
    left = found.occupied.running - len(found.holders)
    if left > 0:
        typer.echo(f"{left:,} more jobs run in it that are not listed", err=True)
    page.print_rest(len(found.waiting), found.occupied.waiting)


@app.command("set")
def set_group(
    key: Annotated[str, typer.Argument(help="The key of an existing group, or of a new one.")],
    max_running: Annotated[
        int | None, typer.Option(help="How many jobs may run at once, on all nodes together.")
    ] = None,
    rate: Annotated[
        str | None, typer.Option(help="How many runs may start in a time, as in 100/m or 5/30s.")
    ] = None,
    data_dir: DataDir = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """Make a group, or replace its limits; a limit that is left out is removed.

    Example: evenbeat groups set site --max-running 2 --rate 100/m
    """
    wanted = Group(key, max_running=max_running, rate=None if rate is None else Rate.parse(rate))
    show_after(lambda eb: eb.groups.put(wanted, by=cli_actor()), data_dir, output)


@app.command()
def pause(
    key: Key, data_dir: DataDir = None, output: printing.Output = printing.Format.TABLE
) -> None:
    """Start no more runs in a group; runs in progress finish.

    Example: evenbeat groups pause site
    """
    show_after(lambda eb: eb.groups.pause(key, by=cli_actor()), data_dir, output)


@app.command()
def resume(
    key: Key, data_dir: DataDir = None, output: printing.Output = printing.Format.TABLE
) -> None:
    """Let the jobs of a paused group run again.

    Example: evenbeat groups resume site
    """
    show_after(lambda eb: eb.groups.resume(key, by=cli_actor()), data_dir, output)


def show_after(
    change: Callable[[Evenbeat], Awaitable[StoredGroup]],
    data_dir: str | None,
    output: printing.Format,
) -> None:
    """Change a group, and show it as it is then."""

    async def work(eb: Evenbeat) -> GroupUsage:
        changed = await change(eb)
        return await eb.groups.occupied(changed.key)

    found, now = with_app_and_time(work, data_dir)
    if output is printing.Format.JSON:
        from evenbeat.api.v1.jobs.wire.group import GroupOut

        printing.print_model(GroupOut.from_core(found))
    else:
        printing.print_table(COLUMNS, [group_row(found, now)])


def group_row(occupied: GroupUsage, now: datetime) -> tuple[Any, ...]:
    group = occupied.group
    return (
        group.key,
        group.max_running,
        group.rate and str(group.rate),
        occupied.running,
        occupied.waiting,
        printing.format_moment(occupied.waiting_since, now),
        printing.format_moment(group.paused_at, now),
    )


def member_row(member: GroupMember, doing: str, now: datetime) -> tuple[Any, ...]:
    return (member.uid, member.name, doing, printing.format_moment(member.since, now), member.node)
