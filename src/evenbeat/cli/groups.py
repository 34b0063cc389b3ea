"""`evenbeat groups`: who runs and who waits in them, and what they allow."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import typer

from evenbeat.app import Evenbeat
from evenbeat.cli import show
from evenbeat.cli.opened import me, with_app
from evenbeat.cli.options import DataDir
from evenbeat.core.groups import Group, Rate
from evenbeat.store.groups import Member, Occupied, StoredGroup

app = typer.Typer(help="Jobs that share a limit or a pace.", no_args_is_help=True)

Key = Annotated[str, typer.Argument(help="As `evenbeat groups list` shows it.")]
Limit = Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")]
COLUMNS = ("key", "max_running", "rate", "running", "waiting", "waiting_since", "paused_at")
MEMBER_COLUMNS = ("job_id", "name", "doing", "since", "node")


@app.command("list")
def list_groups(
    search: Annotated[str | None, typer.Option(help="Part of a key.")] = None,
    limit: Limit = 50,
    data_dir: DataDir = None,
    output: show.Output = show.Format.TABLE,
) -> None:
    """List groups by key."""
    page = with_app(lambda eb: eb.groups.page(search=search, limit=limit), data_dir)
    show.rows(COLUMNS, [row_of(each) for each in page.groups], output)


@app.command("show")
def show_group(
    key: Key,
    limit: Limit = 50,
    data_dir: DataDir = None,
    output: show.Output = show.Format.TABLE,
) -> None:
    """Show a group, who has a place in it, and who waits for one."""
    found = with_app(lambda eb: eb.groups.members(key, limit=limit), data_dir)
    members = [
        *(member_row(each, "runs") for each in found.holders),
        *(member_row(each, "waits") for each in found.waiting),
    ]
    if output is show.Format.JSON:
        group = dict(zip(COLUMNS, row_of(found.occupied), strict=True))
        named = [dict(zip(MEMBER_COLUMNS, each, strict=True)) for each in members]
        show.json({"group": group, "members": named})
        return
    show.rows(COLUMNS, [row_of(found.occupied)], output)
    typer.echo()
    show.rows(MEMBER_COLUMNS, members, output)


@app.command("set")
def set_group(
    key: Annotated[str, typer.Argument(help="Of a group that there is, or of a new one.")],
    max_running: Annotated[int | None, typer.Option(help="How many run at once.")] = None,
    rate: Annotated[str | None, typer.Option(help="How many may start, as in 100/m.")] = None,
    data_dir: DataDir = None,
    output: show.Output = show.Format.TABLE,
) -> None:
    """Make a group, or say what it allows from now on; what is left out has no limit."""
    wanted = Group(key, max_running=max_running, rate=None if rate is None else Rate.parse(rate))
    show_after(lambda eb: eb.groups.put(wanted, by=me()), data_dir, output)


@app.command()
def pause(key: Key, data_dir: DataDir = None, output: show.Output = show.Format.TABLE) -> None:
    """Start nothing more in a group; what runs finishes."""
    show_after(lambda eb: eb.groups.pause(key, by=me()), data_dir, output)


@app.command()
def resume(key: Key, data_dir: DataDir = None, output: show.Output = show.Format.TABLE) -> None:
    """Let jobs of a group in again."""
    show_after(lambda eb: eb.groups.resume(key, by=me()), data_dir, output)


def show_after(
    change: Callable[[Evenbeat], Awaitable[StoredGroup]], data_dir: str | None, output: show.Format
) -> None:
    """Change a group, and show what has become of it."""

    async def work(eb: Evenbeat) -> Occupied:
        changed = await change(eb)
        return await eb.groups.occupied(changed.key)

    show.rows(COLUMNS, [row_of(with_app(work, data_dir))], output)


def row_of(occupied: Occupied) -> tuple[Any, ...]:
    group = occupied.group
    return (
        group.key,
        group.max_running,
        group.rate and str(group.rate),
        occupied.running,
        occupied.waiting,
        occupied.waiting_since,
        group.paused_at,
    )


def member_row(member: Member, doing: str) -> tuple[Any, ...]:
    return (member.uid, member.name, doing, member.since, member.node)
