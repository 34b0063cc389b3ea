"""Tokens that we made: listed, revoked, and then refused by every process."""

import json
import subprocess
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid4

import httpx2 as httpx
import jwt
import pytest

from evenbeat.config import Settings
from evenbeat.control.ops import tokens as control
from evenbeat.control.ops.tokens import Tokens
from evenbeat.core.errors import NotFound, StoreUnavailable
from evenbeat.core.ops.access import Role
from evenbeat.store.database.pool import Database
from evenbeat.store.ops import tokens as store
from tests.security.conftest import Stopwatch
from tests.support.processes import EVENBEAT
from tests.support.serving import (
    SECRET,
    assert_problem,
    assert_refused,
    client_of,
    server_environ,
    serving,
    token_for,
)
from tests.support.waiting import eventually

TOKENS = "/api/v1/tokens"
HOUR = timedelta(hours=1)


def make(admin: httpx.Client, **body: object) -> dict[str, str]:
    answer = admin.post(TOKENS, json={"name": "somebody", **body})
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"] == f"{TOKENS}/{answer.json()['id']}"
    return answer.json()


def test_a_token_is_shown_once_and_opens_what_its_role_allows(
    admin: httpx.Client, address: str
) -> None:
    made = make(admin, role="viewer", expires="1h")
    with client_of(address, made["token"]) as viewer:
        assert viewer.get("/openapi.json").status_code == 200
        assert_problem(viewer.get(TOKENS), 403)
    found = admin.get(f"{TOKENS}/{made['id']}").json()
    assert found == {name: value for name, value in made.items() if name != "token"}
    assert (found["name"], found["role"], found["issued_by"]) == ("somebody", "viewer", "tests")
    assert made["token"] not in admin.get(TOKENS).text
    claims = jwt.decode(made["token"], SECRET, algorithms=["HS256"])
    assert claims["jti"] == made["id"]
    assert claims["exp"] - claims["iat"] == 3600


def test_a_revoked_token_is_no_good_at_once_and_others_are(
    admin: httpx.Client, address: str
) -> None:
    first, second = make(admin), make(admin)
    with client_of(address, first["token"]) as one, client_of(address, second["token"]) as other:
        assert one.get("/openapi.json").status_code == 200
        assert admin.delete(f"{TOKENS}/{first['id']}").status_code == 204
        assert assert_problem(one.get("/openapi.json"), 401)["error"] == "invalid token"
        assert other.get("/openapi.json").status_code == 200
    found = admin.get(f"{TOKENS}/{first['id']}").json()
    assert found["revoked_by"] == "tests"
    again = admin.delete(f"{TOKENS}/{first['id']}")
    assert again.status_code == 204
    assert admin.get(f"{TOKENS}/{first['id']}").json() == found, "the first time counts"


def test_the_list_is_newest_first_and_in_pages(admin: httpx.Client) -> None:
    ids = [make(admin)["id"] for _ in range(3)]
    page = admin.get(TOKENS, params={"limit": 2}).json()
    assert [each["id"] for each in page["tokens"]] == [ids[2], ids[1]]
    assert (page["limit"], page["offset"]) == (2, 0)
    assert page["total"] >= 3
    following = admin.get(TOKENS, params={"limit": 1, "offset": 2}).json()
    assert [each["id"] for each in following["tokens"]] == [ids[0]]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("name", value) for value in ("", " ", "a\nb", "\x00", "\ud800", "x" * 201, 7, None)),
        *(("role", value) for value in ("root", "ADMIN", "", None, 7, ["admin"])),
        *(("expires", value) for value in ("", "0s", "-1h", "4000d", "soon", None, [], 1.5)),
        ("colour", "red"),
    ],
)
def test_a_field_that_cannot_be_is_refused_by_name(
    admin: httpx.Client, field: str, value: object
) -> None:
    body = json.dumps({"name": "x", field: value})
    answer = admin.post(TOKENS, content=body, headers={"content-type": "application/json"})
    assert_refused(answer, field)


def test_an_unknown_token_is_404(admin: httpx.Client) -> None:
    assert_problem(admin.get(f"{TOKENS}/{uuid4()}"), 404)
    assert_problem(admin.delete(f"{TOKENS}/{uuid4()}"), 404)


def test_a_token_is_not_stored_for_a_repeated_request(admin: httpx.Client) -> None:
    headers = {"idempotency-key": "a token, please"}
    ids = [admin.post(TOKENS, json={"name": "x"}, headers=headers).json()["id"] for _ in range(2)]
    assert len(set(ids)) == 2


@pytest.mark.parametrize("jti", ["01890000-0000-7000-8000-000000000000", "not a uuid", ""])
def test_a_token_of_another_issuer_needs_no_record(address: str, jti: str) -> None:
    claims = {"jti": jti, "exp": 4_000_000_000}
    with client_of(address, jwt.encode(claims, SECRET, "HS256")) as client:
        assert client.get("/openapi.json").status_code == 200


@pytest.fixture
def two_addresses(database_url: str, tmp_path: Path) -> Iterator[tuple[str, str]]:
    environ = server_environ(database_url, tmp_path / "home")
    with serving("server", environ, tmp_path) as one, serving("server", environ, tmp_path) as other:
        yield one, other


async def test_a_revocation_is_heard_of_by_another_process_within_seconds(
    two_addresses: tuple[str, str],
) -> None:
    with (
        client_of(two_addresses[0], token_for(Role.ADMIN)) as admin,
        client_of(two_addresses[1], make(admin)["token"]) as bearer,
    ):
        assert bearer.get("/openapi.json").status_code == 200
        newest = admin.get(TOKENS, params={"limit": 1}).json()["tokens"][0]
        admin.delete(f"{TOKENS}/{newest['id']}")
        await eventually(
            lambda: bearer.get("/openapi.json").status_code == 401,
            "401 on the other process",
            patience=control.REVOKED_WITHIN + 3,
        )


class TestHearing:
    """When a process asks which tokens are revoked, by a clock of its own."""

    @pytest.fixture
    def ours(self, database: Database, settings: Settings, stopwatch: Stopwatch) -> Tokens:
        return Tokens(database, settings, elapsed=stopwatch)

    @pytest.fixture
    def theirs(self, database: Database, settings: Settings) -> Tokens:
        return Tokens(database, settings)

    async def token(self, tokens: Tokens) -> UUID:
        made, _ = await tokens.issue(name="x", role=Role.VIEWER, lifetime=HOUR, issued_by="me")
        return made.id

    async def test_what_another_process_revokes_is_heard_of_in_time(
        self, ours: Tokens, theirs: Tokens, stopwatch: Stopwatch
    ) -> None:
        assert control.REVOKED_WITHIN <= 5
        made = await self.token(ours)
        assert not await ours.is_revoked(made)
        await theirs.revoke(made, revoked_by="them")
        stopwatch.passes(control.REVOKED_WITHIN - 0.1)
        assert not await ours.is_revoked(made), "it was not asked about every time"
        stopwatch.passes(0.2)
        assert await ours.is_revoked(made)

    async def test_what_this_process_revokes_it_knows_at_once(self, ours: Tokens) -> None:
        made = await self.token(ours)
        assert not await ours.is_revoked(made)
        await ours.revoke(made, revoked_by="us")
        assert await ours.is_revoked(made)

    async def test_without_the_database_no_token_is_accepted_for_long(
        self, ours: Tokens, database: Database, stopwatch: Stopwatch
    ) -> None:
        made = await self.token(ours)
        assert not await ours.is_revoked(made)
        await database.close()
        assert not await ours.is_revoked(made)
        stopwatch.passes(control.REVOKED_WITHIN + 1)
        with pytest.raises((StoreUnavailable, AttributeError)):
            await ours.is_revoked(made)

    async def test_an_expired_token_is_in_the_list_of_revoked_ones_no_more(
        self, theirs: Tokens, database: Database
    ) -> None:
        made = await self.token(theirs)
        await theirs.revoke(made, revoked_by="us")
        assert await store.find_revoked_ids(database) == {made}
        await age(database, made, hours=2)
        assert await store.find_revoked_ids(database) == frozenset()

    async def test_tokens_that_expired_long_ago_are_forgotten_a_few_at_a_time(
        self, theirs: Tokens, database: Database
    ) -> None:
        kept, *old = [await self.token(theirs) for _ in range(4)]
        for each in old:
            await age(database, each, hours=48)
        day = timedelta(days=1)
        assert await store.remove_expired_tokens(database, kept=timedelta(days=7), limit=10) == 0
        assert await store.remove_expired_tokens(database, kept=day, limit=2) == 2
        assert await store.remove_expired_tokens(database, kept=day, limit=2) == 1
        assert (await theirs.get(kept)).id == kept
        with pytest.raises(NotFound, match=str(old[0])):
            await theirs.get(old[0])


async def age(database: Database, token_id: UUID, hours: int) -> None:
    async with database.connection() as connection:
        await connection.execute(
            "update evenbeat.access_token set issued_at = issued_at - make_interval(hours => $2), "
            "expires_at = expires_at - make_interval(hours => $2) where id = $1",
            token_id,
            hours,
        )


class TestCommand:
    @pytest.fixture
    def call(self, database_url: str, tmp_path: Path) -> Callable[..., str]:
        environ = server_environ(database_url, tmp_path)

        def run(*arguments: str) -> str:
            command = [EVENBEAT, *arguments]
            ended = subprocess.run(
                command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=True
            )
            assert ended.stderr == ""
            return ended.stdout

        return run

    def test_a_token_is_recorded_listed_and_revoked(
        self, call: Callable[..., str], admin: httpx.Client, address: str
    ) -> None:
        printed = call("token", "--role", "viewer", "--name", "ci", "--expires", "2h")
        [token] = printed.splitlines()
        newest = json.loads(call("tokens", "list", "-o", "json"))["tokens"][0]
        assert (newest["name"], newest["role"]) == ("ci", "viewer")
        assert newest["issued_by"].startswith("cli")
        assert newest["id"] in call("tokens", "list")
        with client_of(address, token) as client:
            assert client.get("/openapi.json").status_code == 200
        assert newest["id"] in call("tokens", "revoke", newest["id"], "--yes")
        assert admin.get(f"{TOKENS}/{newest['id']}").json()["revoked_at"]
        revoked = json.loads(call("tokens", "revoke", newest["id"], "-y", "-o", "json"))
        assert revoked["revoked_by"].startswith("cli")

    def test_nothing_is_revoked_without_a_confirmation(
        self, admin: httpx.Client, database_url: str, tmp_path: Path
    ) -> None:
        made = make(admin)
        for typed in ("", "n\n"):
            ended = subprocess.run(
                [EVENBEAT, "tokens", "revoke", made["id"]],
                env=server_environ(database_url, tmp_path),
                cwd=tmp_path,
                input=typed,
                capture_output=True,
                text=True,
            )
            assert (ended.returncode, ended.stdout.strip()) == (1, "")
            assert f"Revoke the token of somebody, {made['id']}?" in ended.stderr
        assert admin.get(f"{TOKENS}/{made['id']}").json()["revoked_at"] is None

    def test_without_a_database_it_is_made_and_said_not_to_be_recorded(
        self, tmp_path: Path, address: str
    ) -> None:
        environ = server_environ("postgresql://nobody@127.0.0.1:1/none", tmp_path)
        ended = subprocess.run(
            [EVENBEAT, "token"], env=environ, cwd=tmp_path, capture_output=True, text=True
        )
        assert ended.returncode == 0
        assert "not recorded" in ended.stderr
        with client_of(address, ended.stdout.splitlines()[-1]) as client:
            assert client.get("/openapi.json").status_code == 200
