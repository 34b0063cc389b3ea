"""`evenbeat status`: the state of the whole service on one screen."""

from dataclasses import dataclass
from typing import Any

import typer

from evenbeat.app import Evenbeat
from evenbeat.cli.ops.maintenance import maintenance_in_words
from evenbeat.cli.shell import printing
from evenbeat.cli.shell.options import DataDir
from evenbeat.cli.shell.watch import WatchOption, show_or_watch
from evenbeat.core.ops.figures import ScheduleLag
from evenbeat.core.ops.statistics import Overview
from evenbeat.core.time.durations import round_for_people
from evenbeat.store.ops.maintenance import Maintenance
from evenbeat.store.ops.nodes import StoredNode


@dataclass(frozen=True, slots=True)
class StatusScreen:
    """What `evenbeat status` shows."""

    overview: Overview
    lag: ScheduleLag
    nodes: list[StoredNode]
    maintenance: Maintenance | None


def status(
    watch: WatchOption = False,
    data_dir: DataDir = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """Show jobs by state, lag, nodes, runs, dead letters and maintenance.

    Example: evenbeat status --watch
    """

    async def show(eb: Evenbeat) -> None:
        nodes = [node for node in await eb.nodes.all() if node.is_alive]
        overview, lag = await eb.statistics.of_all(), await eb.lag()
        screen = StatusScreen(overview, lag, nodes, await eb.maintenance.status())
        if output is printing.Format.JSON:
            printing.print_json(status_as_object(screen))
        else:
            print_status(screen)

    show_or_watch(show, watch, data_dir, output)


def status_as_object(screen: StatusScreen) -> dict[str, Any]:
    from evenbeat.api.v1.ops.wire.operations import MaintenanceOut, NodesOut
    from evenbeat.api.v1.ops.wire.statistics import StatsOut

    return {
        **StatsOut.from_core(screen.overview).model_dump(mode="json"),
        "lag_seconds": screen.lag.schedule.total_seconds(),
        "nodes": NodesOut.from_core(screen.nodes).model_dump(mode="json")["nodes"],
        "maintenance": MaintenanceOut.from_core(screen.maintenance).model_dump(mode="json"),
    }


def print_status(screen: StatusScreen) -> None:
    overview, runs = screen.overview, screen.overview.runs
    jobs = [f"{count:,} {state}" for state, count in sorted(overview.jobs.items()) if count]
    in_progress = sum(node.running for node in screen.nodes)
    runs_in_progress = printing.format_count(in_progress, "run")
    rate = "" if runs.success_rate is None else f" ({runs.success_rate:.1%} success)"
    letters = f"{overview.dead_letters:,}, {overview.open_dead_letters:,} not acknowledged"
    printing.print_fields(
        {
            "at": printing.format_instant(overview.at),
            "jobs": ", ".join(jobs) or "none",
            "lag": round_for_people(screen.lag.schedule),
            "nodes": f"{len(screen.nodes)} alive, {runs_in_progress} in progress",
            "runs": f"{runs.completed:,} completed, {runs.failed:,} failed{rate}",
            "dead letters": letters,
            "maintenance": maintenance_in_words(screen.maintenance, overview.at),
        }
    )
    if screen.nodes and screen.lag.unserved:
        typer.echo(
            "\nSome due jobs have no live node that serves them: `evenbeat doctor` lists them."
        )
    if not screen.nodes:
        typer.echo("\nNo node is alive, so no job runs: start a node with `evenbeat worker`.")
