"""`evenbeat doctor`: finds what is wrong with an installation, with advice for each finding."""

from typing import Annotated

import typer

from evenbeat.app import Evenbeat
from evenbeat.cli.shell import printing
from evenbeat.cli.shell.app_session import with_any_schema
from evenbeat.cli.shell.options import DataDir
from evenbeat.control.ops.doctor import CHECKS, Finding, diagnose


def doctor(
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Leave out the rules of `evenbeat verify`, which read the whole history.",
        ),
    ] = False,
    data_dir: DataDir = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """Check schema, storage, lag, nodes, vacuum, connections, clock and rules.

    Changes nothing. Exit code 1 if anything is wrong; each finding comes with advice.

    Example: evenbeat doctor --quick
    """

    async def work(eb: Evenbeat) -> list[Finding]:
        return await diagnose(eb.database, eb.settings, with_rules=not quick)

    findings = with_any_schema(work, data_dir)
    checks = [check for check in CHECKS if check != "rules" or not quick]
    is_wrong = any(each.is_wrong for each in findings)
    if output is printing.Format.JSON:
        printing.print_json({"is_healthy": not is_wrong, "checks": checks, "findings": findings})
    else:
        print_findings(findings, checks)
    if is_wrong:
        raise typer.Exit(1)


def print_findings(findings: list[Finding], checks: list[str]) -> None:
    for each in findings:
        typer.echo(f"{'WRONG' if each.is_wrong else 'note':5}  {each.check}: {each.what}")
        typer.echo(f"         {each.advice}")
    troubled = {each.check for each in findings}
    fine = [check for check in checks if check not in troubled]
    if troubled != {"schema"}:
        typer.echo(f"{'ok':5}  {', '.join(fine)}")
