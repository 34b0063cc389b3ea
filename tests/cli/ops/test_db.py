"""`evenbeat db`: the schema forth and back, and the ways to the database."""

import json
from pathlib import Path

import asyncpg
import pytest

from evenbeat.store.database.migrations import known_repeatables

pytestmark = pytest.mark.usefixtures("own_url")


async def tables(url: str) -> set[str]:
    connection = await asyncpg.connect(url)
    try:
        rows = await connection.fetch(
            "select tablename from pg_tables where schemaname = 'evenbeat'"
        )
    finally:
        await connection.close()
    return {row["tablename"] for row in rows}


async def execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def test_the_schema_goes_forth_and_back(evenbeat, own_url: str) -> None:
    def db(*arguments: str, typed: str = ""):
        return evenbeat("db", *arguments, typed=typed, EVENBEAT_DATABASE_URL=own_url)

    pending = db("status")
    assert pending.returncode == 1
    assert "0001" in pending.stdout

    would = db("migrate", "--dry-run")
    assert (would.returncode, would.stdout.startswith("Would apply 0001 ")) == (0, True)
    assert await tables(own_url) == set()

    done = db("migrate")
    assert (done.returncode, done.stdout.startswith("Applied 0001 ")) == (0, True)
    assert {"job", "pulse", "run", "node"} <= await tables(own_url)

    again = db("migrate")
    assert (again.returncode, again.stdout) == (0, "The schema is up to date.\n")

    status = db("status", "-o", "json")
    assert status.returncode == 0
    first = json.loads(status.stdout)[0]
    assert first["number"] == "0001"
    assert first["applied_at"]

    would = db("rollback", "--dry-run", "--steps", "1000")
    assert (would.returncode, "Would roll back 0001 " in would.stdout) == (0, True)
    assert "job" in await tables(own_url)

    refused = db("rollback", "--steps", "1000", typed="n\n")
    assert refused.returncode == 1
    assert "Roll back" in refused.stdout + refused.stderr
    assert "job" in await tables(own_url)

    undone = db("rollback", "--steps", "1000", "--yes")
    assert (undone.returncode, "Rolled back 0001 " in undone.stdout) == (0, True)
    assert "job" not in await tables(own_url)

    nothing = db("rollback", "--yes")
    assert (nothing.returncode, nothing.stdout) == (0, "There is nothing to roll back.\n")


async def test_repeatable_files_are_shown_and_brought_up_to_date(evenbeat, own_url: str) -> None:
    def db(*arguments: str):
        return evenbeat("db", *arguments, EVENBEAT_DATABASE_URL=own_url)

    def listed() -> dict[str, dict[str, str]]:
        rows = json.loads(db("status", "-o", "json").stdout)
        return {row["name"]: row for row in rows if row["number"].startswith("v")}

    [version] = [file.version for file in known_repeatables() if file.name == "cron"]
    cron = f"repeatable cron, version {version}"
    assert f"Applied {cron}.\n" in db("migrate").stdout
    assert listed()["cron"]["number"] == f"v{version}"
    assert listed()["cron"]["applied_at"]

    await execute(own_url, "update evenbeat.repeatable set version = 0 where name = 'cron'")
    assert db("status").returncode == 1
    assert listed()["cron"]["applied_at"] is None
    would = db("migrate", "--dry-run")
    assert (would.returncode, would.stdout) == (0, f"Would apply {cron}.\n")
    assert db("migrate").stdout.endswith(f"Applied {cron}.\n")

    await execute(own_url, "update evenbeat.repeatable set version = 777 where name = 'cron'")
    assert db("status").returncode == 0
    assert listed()["cron"]["number"] == "v777"
    assert db("migrate").stdout == "The schema is up to date.\n"


def test_the_number_of_steps_is_at_least_one(evenbeat, own_url: str) -> None:
    ended = evenbeat("db", "rollback", "--steps", "0", EVENBEAT_DATABASE_URL=own_url)
    assert ended.returncode == 2


def test_the_url_is_printed_for_other_programs(evenbeat, own_url: str) -> None:
    ended = evenbeat("db", "url", EVENBEAT_DATABASE_URL=own_url)
    assert (ended.returncode, ended.stdout) == (0, f"{own_url}\n")


def test_psql_gets_its_arguments_and_gives_its_exit_code(evenbeat, own_url: str) -> None:
    good = evenbeat("db", "psql", "-Atc", "select 6 * 7", EVENBEAT_DATABASE_URL=own_url)
    assert (good.returncode, good.stdout) == (0, "42\n")
    bad = evenbeat("db", "psql", "-c", "select 1 / 0", EVENBEAT_DATABASE_URL=own_url)
    assert bad.returncode == 1
    assert "division by zero" in bad.stderr


def test_psql_shows_no_password_to_whoever_lists_processes(evenbeat, own_url: str) -> None:
    look = r"\! tr '\0' ' ' < /proc/$PPID/cmdline"
    ended = evenbeat("db", "psql", "-c", look, EVENBEAT_DATABASE_URL=own_url)
    assert "postgresql://" in ended.stdout
    assert own_url not in ended.stdout


async def test_a_database_of_a_newer_version_is_left_alone(evenbeat, refuses, own_url: str) -> None:
    assert evenbeat("db", "migrate", EVENBEAT_DATABASE_URL=own_url).returncode == 0
    await execute(
        own_url,
        "insert into evenbeat.migration (number, name, checksum, applied_at) "
        "values (9999, 'from_the_future', 'x', now())",
    )
    for command in ("server", "worker", "db migrate", "db rollback --yes"):
        ended = evenbeat(*command.split(), EVENBEAT_DATABASE_URL=own_url, EVENBEAT_PORT="0")
        said = refuses(ended)
        assert "9999 (from_the_future)" in said
        assert "upgrade Evenbeat" in said


async def test_a_migration_that_was_changed_afterwards_is_noticed(
    evenbeat, refuses, own_url: str
) -> None:
    assert evenbeat("db", "migrate", EVENBEAT_DATABASE_URL=own_url).returncode == 0
    await execute(own_url, "update evenbeat.migration set checksum = 'x' where number = 1")
    said = refuses(evenbeat("db", "migrate", EVENBEAT_DATABASE_URL=own_url))
    assert "0001" in said
    assert "was changed after it was applied" in said


UNREACHABLE = {
    "no server there": "postgresql://evenbeat:canary@127.0.0.1:1/evenbeat",
    "no such host": "postgresql://evenbeat:canary@no.such.host.invalid/evenbeat",
}


@pytest.mark.parametrize("url", UNREACHABLE.values(), ids=UNREACHABLE)
def test_an_unreachable_database_is_one_clear_line(evenbeat, refuses, url: str) -> None:
    ended = evenbeat("db", "status", EVENBEAT_DATABASE_URL=url)
    place = url.partition("@")[2].removesuffix("/evenbeat")
    place = place if ":" in place else f"{place}:5432"
    told = refuses(ended)
    assert told.startswith(f"cannot connect to the database at {place}: ")
    assert told.endswith("; check EVENBEAT_DATABASE_URL")
    assert "canary" not in ended.stdout + ended.stderr


@pytest.mark.parametrize("command", ["up", "worker"])
def test_no_process_starts_on_an_unreachable_database(evenbeat, refuses, command: str) -> None:
    url = UNREACHABLE["no server there"]
    ended = evenbeat(command, EVENBEAT_DATABASE_URL=url, EVENBEAT_PORT="0")
    assert refuses(ended).startswith("cannot connect to the database at 127.0.0.1:1: ")


def test_a_wrong_password_is_one_clear_line_that_does_not_show_it(
    evenbeat, refuses, own_url: str
) -> None:
    person, _, place = own_url.partition("@")
    name = person.rpartition(":")[0]
    ended = evenbeat("db", "status", EVENBEAT_DATABASE_URL=f"{name}:canary@{place}")
    assert "password authentication failed" in refuses(ended)
    assert "canary" not in ended.stdout + ended.stderr


def test_a_database_that_is_not_there_is_one_clear_line(evenbeat, refuses, own_url: str) -> None:
    url = own_url.replace("evenbeat_own", "evenbeat_nonesuch")
    assert "evenbeat_nonesuch" in refuses(evenbeat("db", "status", EVENBEAT_DATABASE_URL=url))


class TestDataDirectory:
    """Of the embedded server, where it cannot be made."""

    @pytest.mark.parametrize("command", ["up", "db migrate"])
    def test_a_file_in_its_place_is_one_clear_line(
        self, evenbeat, refuses, tmp_path: Path, command: str
    ) -> None:
        place = tmp_path / "home"
        place.write_text("not a directory")
        environ = {"EVENBEAT_DATA_DIR": str(place), "EVENBEAT_PORT": "0"}
        assert str(place) in refuses(evenbeat(*command.split(), **environ))
        assert place.read_text() == "not a directory"

    def test_below_a_file_it_cannot_be_made(self, evenbeat, refuses, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        place = tmp_path / "file" / "home"
        said = refuses(evenbeat("up", EVENBEAT_DATA_DIR=str(place), EVENBEAT_PORT="0"))
        assert str(place) in said
        assert "EVENBEAT_DATA_DIR" in said

    def test_on_a_read_only_place_it_cannot_be_made(self, evenbeat, refuses) -> None:
        # /proc refuses everyone, root included.
        said = refuses(evenbeat("up", EVENBEAT_DATA_DIR="/proc/home", EVENBEAT_PORT="0"))
        assert "/proc/home" in said
        assert "EVENBEAT_DATA_DIR" in said
