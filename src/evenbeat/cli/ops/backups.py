"""`evenbeat db backup` and `restore`: everything into one file, and back."""

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
    """Write everything into one file, as of one moment, beside working nodes.

    Secrets are not in it, but everything else is: payloads, results and log lines of all jobs. The
    file is for your eyes alone; keep it so.

    Example: evenbeat db backup monday.zip
    """

    async def work(url: str) -> Backup:
        with printing.show_progress("Backing up", counts_bytes=True) as advance:
            return await backups.write_backup(url, file, advance)

    report(with_url(work, data_dir), "Backed up", output)


def restore(
    file: File,
    replace: Annotated[
        bool, typer.Option("--replace", help="Lose what is in the database now.")
    ] = False,
    yes: Yes = False,
    data_dir: DataDir = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """Put a backup into an empty database, all or nothing, and check it by every rule.

    Refused while nodes live on the database. What ran when the backup was taken is lost, and the
    first node that joins settles it. Exit code 1 if a rule is broken.

    Example: evenbeat db restore monday.zip
    """
    if replace and not yes:
        typer.confirm("Lose every job and run in this database?", abort=True, err=True)

    async def work(url: str) -> Backup:
        with printing.show_progress("Restoring", counts_bytes=True) as advance:
            return await backups.restore_backup(url, file, replaces=replace, on_progress=advance)

    restored = with_url(work, data_dir)
    found = with_app(lambda eb: eb.verify(), data_dir)
    report(restored, "Restored", output, breaches=[str(breach) for breach in found.breaches])
    if found.breaches:
        if output is printing.Format.TABLE:
            print_report(found)
        raise typer.Exit(1)


def report(
    done: Backup, what: str, output: printing.Format, breaches: list[str] | None = None
) -> None:
    tables = {table.name: table.rows for table in done.contents.tables}
    if output is printing.Format.TABLE:
        typer.echo(
            f"{what} {done.rows:,} rows of {len(tables)} tables, as of {done.taken_at:%F %T} UTC."
        )
        return
    told: dict[str, object] = {"file": str(done.path), "taken_at": done.taken_at, "tables": tables}
    printing.print_json(told if breaches is None else told | {"breaches": breaches})
