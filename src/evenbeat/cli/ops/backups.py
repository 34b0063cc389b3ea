"""`evenbeat db backup` and `restore`: the whole database into one file, and back."""

from pathlib import Path
from typing import Annotated

import typer

from evenbeat.cli.ops.verify import print_report
from evenbeat.cli.shell import printing
from evenbeat.cli.shell.app_session import with_app, with_url
from evenbeat.cli.shell.options import DataDir, Yes
from evenbeat.control.ops import backup as backups
from evenbeat.control.ops.backup import Backup

File = Annotated[Path, typer.Argument(help="The file.", dir_okay=False)]


def backup(
    file: File, data_dir: DataDir = None, output: printing.Output = printing.Format.TABLE
) -> None:
    """Write everything into one file, in one snapshot; nodes may keep working.

    The file has no secrets, but payloads, results and log lines of all jobs. Only you can read it;
    keep it so.

    Example: evenbeat db backup monday.zip
    """

    async def work(url: str) -> Backup:
        with printing.show_progress("Backing up", counts_bytes=True) as advance:
            return await backups.write_backup(url, file, advance)

    print_backup(with_url(work, data_dir), "Backed up", output)


def restore(
    file: File,
    replace: Annotated[
        bool, typer.Option("--replace", help="Delete what is in the database now.")
    ] = False,
    yes: Yes = False,
    data_dir: DataDir = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """Restore a backup into an empty database, in one transaction, and check every rule.

    Refused while nodes are alive on the database. Runs that were in progress at the backup count
    as lost; the first node that joins settles them. Exit code 1 if a rule is broken.

    Example: evenbeat db restore monday.zip
    """
    if replace and not yes:
        typer.confirm("Delete every job and run in this database?", abort=True, err=True)

    async def work(url: str) -> Backup:
        with printing.show_progress("Restoring", counts_bytes=True) as advance:
            return await backups.restore_backup(url, file, replaces=replace, on_progress=advance)

    restored = with_url(work, data_dir)
    found = with_app(lambda eb: eb.verify(), data_dir)
    print_backup(restored, "Restored", output, breaches=[str(breach) for breach in found.breaches])
    if found.breaches:
        if output is printing.Format.TABLE:
            print_report(found)
        raise typer.Exit(1)


def print_backup(
    done: Backup, what: str, output: printing.Format, breaches: list[str] | None = None
) -> None:
    tables = {table.name: table.rows for table in done.contents.tables}
    if output is printing.Format.TABLE:
        typer.echo(
            f"{what} {done.rows:,} rows of {len(tables)} tables, as of {done.taken_at:%F %T} UTC."
        )
        return
    fields: dict[str, object] = {
        "file": str(done.path),
        "taken_at": done.taken_at,
        "tables": tables,
    }
    printing.print_json(fields if breaches is None else fields | {"breaches": breaches})
