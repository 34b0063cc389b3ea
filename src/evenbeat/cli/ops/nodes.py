"""`evenbeat nodes`: lists the nodes, and drains them."""

from datetime import datetime
from typing import Annotated, Any

import typer

from evenbeat.app import Evenbeat
from evenbeat.cli.shell import printing
from evenbeat.cli.shell.app_session import cli_actor, with_app_and_time
from evenbeat.cli.shell.options import DataDir
from evenbeat.core.errors import Conflict, NotFound
from evenbeat.store.ops.nodes import StoredNode

app = typer.Typer(help="Nodes: the processes that run jobs.", no_args_is_help=True)

NodeArgument = Annotated[
    str, typer.Argument(help="The node's id or name, as `evenbeat nodes list` shows it.")
]
COLUMNS = ("id", "name", "status", "running", "kinds", "labels", "joined", "alive_until")


@app.command("list")
def list_nodes(data_dir: DataDir = None, output: printing.Output = printing.Format.TABLE) -> None:
    """List the nodes that are alive, and those that died recently.

    Example: evenbeat nodes list
    """
    nodes, now = with_app_and_time(lambda eb: eb.nodes.all(), data_dir)
    if output is printing.Format.JSON:
        from evenbeat.api.v1.ops.wire.operations import NodesOut

        printing.print_model(NodesOut.from_core(nodes))
    else:
        printing.print_table(COLUMNS, [node_row(node, now) for node in nodes])


@app.command()
def drain(
    node: NodeArgument, data_dir: DataDir = None, output: printing.Output = printing.Format.TABLE
) -> None:
    """Let a node finish its runs and start no more, for example before you stop it.

    Example: evenbeat nodes drain 3
    """

    async def work(eb: Evenbeat) -> StoredNode:
        return await eb.nodes.drain(await find_node_id(eb, node), by=cli_actor())

    print_node(*with_app_and_time(work, data_dir), output)


@app.command()
def undrain(
    node: NodeArgument, data_dir: DataDir = None, output: printing.Output = printing.Format.TABLE
) -> None:
    """Let a drained node start runs again.

    Example: evenbeat nodes undrain 3
    """

    async def work(eb: Evenbeat) -> StoredNode:
        return await eb.nodes.undrain(await find_node_id(eb, node), by=cli_actor())

    print_node(*with_app_and_time(work, data_dir), output)


async def find_node_id(eb: Evenbeat, id_or_name: str) -> int:
    live = [node for node in await eb.nodes.all() if node.is_alive]
    by_id = [node.id for node in live if str(node.id) == id_or_name]
    found = by_id or [node.id for node in live if node.name == id_or_name]
    if not found:
        names = ", ".join(sorted({node.name for node in live})) or "none"
        raise NotFound(f"no live node {id_or_name}; the live nodes are: {names}")
    if len(found) > 1:
        ids = ", ".join(map(str, found))
        raise Conflict(
            f"several live nodes are named {id_or_name}: give an id instead, one of {ids}"
        )
    return found[0]


def print_node(node: StoredNode, now: datetime, output: printing.Format) -> None:
    if output is printing.Format.JSON:
        from evenbeat.api.v1.ops.wire.operations import NodeOut

        printing.print_model(NodeOut.from_core(node))
    else:
        printing.print_table(COLUMNS, [node_row(node, now)])


def node_row(node: StoredNode, now: datetime) -> tuple[Any, ...]:
    return (
        node.id,
        node.name,
        node.status,
        node.running,
        ", ".join(node.kinds),
        ", ".join(node.labels),
        printing.format_moment(node.joined_at, now),
        printing.format_moment(node.alive_until, now),
    )
