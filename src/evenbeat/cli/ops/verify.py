"""`evenbeat verify`: checks the rows of the database by rules that always hold."""

import typer

from evenbeat.cli.shell import printing
from evenbeat.cli.shell.app_session import with_app
from evenbeat.cli.shell.options import DataDir
from evenbeat.control.ops.verify import ALL_RULES, VerifyReport


def verify(data_dir: DataDir = None, output: printing.Output = printing.Format.TABLE) -> None:
    """Check every rule that must hold for jobs, runs, leases and groups; changes nothing.

    Exit code 1 if a rule is broken. Nodes may keep working.

    Example: evenbeat verify
    """
    report = with_app(lambda eb: eb.verify(), data_dir)
    if output is printing.Format.JSON:
        printing.print_json(report_as_object(report))
    else:
        print_report(report)
    if report.breaches:
        raise typer.Exit(1)


def print_report(report: VerifyReport) -> None:
    for rule in ALL_RULES:
        breaches = report.breaches_of(rule)
        typer.echo(f"{'BROKEN' if breaches else 'ok':6}  {rule.replace('_', ' ')}")
        for breach in breaches:
            typer.echo(f"          {breach.detail}")
    scope, count = report.scope, len(report.breaches)
    found = f"{count} breach{'es'[: 2 * (count > 1)]} found" if count else "nothing found"
    typer.echo(f"{scope.jobs} jobs and {scope.runs} runs looked at: {found}.")


def report_as_object(report: VerifyReport) -> dict[str, object]:
    return {
        "jobs": report.scope.jobs,
        "runs": report.scope.runs,
        "rules": {rule: [each.detail for each in report.breaches_of(rule)] for rule in ALL_RULES},
        "breaches": len(report.breaches),
    }
