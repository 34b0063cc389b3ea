"""`evenbeat token` and `evenbeat tokens`: makes, lists and revokes tokens of the API."""

import asyncio
from datetime import datetime, timedelta
from typing import Annotated, Any
from uuid import UUID

import typer

from evenbeat.app import Evenbeat
from evenbeat.cli.shell import printing
from evenbeat.cli.shell.app_session import actor_name, check_schema, with_app, with_app_and_time
from evenbeat.cli.shell.option_sets import expand_option_sets
from evenbeat.cli.shell.options import DataDir, PageOptions, Yes
from evenbeat.config import Settings, load
from evenbeat.control.ops.token_signing import make_token
from evenbeat.core.errors import MigrationFailed, StoreUnavailable
from evenbeat.core.ops.access import LIFETIME, AccessToken, Role
from evenbeat.core.time.durations import parse_duration
from evenbeat.observe import log
from evenbeat.store.database.connection_errors import translate_privilege_errors

app = typer.Typer(
    help="The tokens that `evenbeat token` and the API have made.", no_args_is_help=True
)

COLUMNS = ("id", "name", "role", "issued_at", "issued_by", "expires_at", "revoked_at", "revoked_by")
NOT_RECORDED = (
    "This token is valid but not recorded ({why}): `evenbeat tokens` cannot list or revoke it. "
    "Make tokens while `evenbeat up` or `evenbeat server` runs to have them recorded."
)


def token(
    role: Annotated[Role, typer.Option(help="What the token allows.")] = Role.OPERATOR,
    name: Annotated[str, typer.Option(help="Who uses the token.")] = "cli",
    expires: Annotated[str, typer.Option(help="How long it is valid, as in 12h or 30d.")] = "30d",
    data_dir: DataDir = None,
) -> None:
    """Print a token for the API; it is the only text on the last line.

    Example: evenbeat token --role viewer --name grafana --expires 90d
    """
    lifetime = parse_duration(expires, "expires", LIFETIME)
    settings = load(data_dir=data_dir)
    log.configure(settings)
    try:
        with translate_privilege_errors():
            signed = asyncio.run(issue(settings, name, role, lifetime))
    except (StoreUnavailable, MigrationFailed) as error:
        signed = make_token(settings, name=name, role=role, lifetime=lifetime)
        typer.echo(NOT_RECORDED.format(why=error), err=True)
    typer.echo(signed)


async def issue(settings: Settings, name: str, role: Role, lifetime: timedelta) -> str:
    eb = Evenbeat(settings)
    # An embedded server is not started for one row: the user of the token will start it.
    if not eb.has_database():
        raise StoreUnavailable("no database is running")
    async with eb:
        await check_schema(eb)
        _, signed = await eb.tokens.issue(
            name=name, role=role, lifetime=lifetime, issued_by=actor_name()
        )
        return signed


@app.command("list")
@expand_option_sets
def list_tokens(
    page: PageOptions,
    data_dir: DataDir = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """List the recorded tokens, newest first.

    Example: evenbeat tokens list
    """
    found, now = with_app_and_time(
        lambda eb: eb.tokens.page(limit=page.limit, offset=page.offset), data_dir
    )
    if output is printing.Format.JSON:
        from evenbeat.api.v1.ops.wire.token import TokensOut

        printing.print_model(TokensOut.from_core(found, limit=page.limit, offset=page.offset))
        return
    printing.print_table(COLUMNS, [token_row(each, now) for each in found.tokens])
    page.print_rest(len(found.tokens), found.total)


def token_row(token: AccessToken, now: datetime) -> tuple[Any, ...]:
    return (
        token.id,
        token.name,
        token.role,
        printing.format_moment(token.issued_at, now),
        token.issued_by,
        printing.format_moment(token.expires_at, now),
        printing.format_moment(token.revoked_at, now),
        token.revoked_by,
    )


@app.command()
def revoke(
    token_id: Annotated[
        UUID,
        typer.Argument(help="The token's id, as `evenbeat tokens list` shows it.", metavar="ID"),
    ],
    yes: Yes = False,
    data_dir: DataDir = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """Revoke a token: within seconds no process accepts it any more. Asks first.

    Example: evenbeat tokens revoke 0a6b1c52-6f0e-4b8e-9d0c-3f6a2f3f7a11
    """
    if not yes:
        found = with_app(lambda eb: eb.tokens.get(token_id), data_dir)
        typer.confirm(f"Revoke the token of {found.name}, {found.id}?", abort=True, err=True)
    revoked = with_app(lambda eb: eb.tokens.revoke(token_id, revoked_by=actor_name()), data_dir)
    if output is printing.Format.JSON:
        from evenbeat.api.v1.ops.wire.token import TokenOut

        printing.print_model(TokenOut.from_core(revoked))
    else:
        typer.echo(f"Revoked the token of {revoked.name}, {revoked.id}.")
