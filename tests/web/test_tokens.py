"""The secret that signs tokens, and the roles they carry."""

import os
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from evenbeat.config import Settings
from evenbeat.control.ops.token_signing import find_signing_secret, make_token
from evenbeat.core.errors import InvalidInput, InvalidSettings, NotSignedIn
from evenbeat.core.ops.access import Role
from evenbeat.web.caller import ApiCaller
from evenbeat.web.token_checks import TokenCache, TokenReader


def test_a_configured_secret_is_used_and_nothing_is_written(tmp_path: Path) -> None:
    settings = Settings(jwt_secret="x" * 32, data_dir=tmp_path / "home")  # type: ignore[arg-type]
    assert find_signing_secret(settings) == "x" * 32
    assert not settings.data_dir.exists()


def test_a_secret_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "deep" / "home")
    before = os.umask(0)
    try:
        secret = find_signing_secret(settings)
    finally:
        os.umask(before)
    [file] = settings.data_dir.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(settings.data_dir.stat().st_mode) == 0o700
    assert find_signing_secret(settings) == secret == file.read_text()


def test_two_homes_have_two_secrets(tmp_path: Path) -> None:
    one, other = (
        find_signing_secret(Settings(data_dir=tmp_path / name)) for name in ("one", "other")
    )
    assert one != other
    assert min(len(one), len(other)) >= 32


def test_many_at_once_make_one_secret(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "home")
    with ThreadPoolExecutor(16) as pool:
        made = set(pool.map(lambda _: find_signing_secret(settings), range(64)))
    assert len(made) == 1
    assert len(list(settings.data_dir.iterdir())) == 1


@pytest.mark.parametrize("content", [b"", b"too short", b"\n" * 100, b"x" * 31])
def test_a_file_that_holds_no_secret_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "jwt-secret").write_bytes(content)
    with pytest.raises(InvalidSettings, match="jwt-secret holds fewer than 32 characters"):
        find_signing_secret(Settings(data_dir=tmp_path))


def test_a_secret_of_ones_own_may_end_with_a_newline(tmp_path: Path) -> None:
    (tmp_path / "jwt-secret").write_text("x" * 32 + "\n")
    assert find_signing_secret(Settings(data_dir=tmp_path)) == "x" * 32


async def test_a_token_is_good_for_its_lifetime_and_no_longer(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    fresh, stale = (
        make_token(settings, name="tests", role=Role.VIEWER, lifetime=timedelta(hours=hours))
        for hours in (1, -1)
    )
    person = await TokenReader(settings).read(fresh)
    assert (person.name, person.role) == ("tests", Role.VIEWER)
    with pytest.raises(NotSignedIn, match="invalid token"):
        await TokenReader(settings).read(stale)


class TestKnownTokens:
    """Tokens that were read already."""

    PERSON = ApiCaller("tests", Role.VIEWER)

    @pytest.mark.parametrize(("seconds", "is_good"), [(3600, True), (-20, True), (-40, False)])
    def test_one_that_has_expired_meanwhile_is_not_known_any_more(
        self, seconds: int, is_good: bool
    ) -> None:
        known = TokenCache()
        known.remember("a token", self.PERSON, {"exp": int(time.time()) + seconds})
        assert known.find("a token") == (self.PERSON if is_good else None)
        assert known.find("a tokem") is None

    def test_only_so_many_are_kept(self) -> None:
        known, later = TokenCache(most=2), {"exp": int(time.time()) + 60}
        for token in ("one", "two", "three"):
            known.remember(token, self.PERSON, later)
        assert [known.find(token) is not None for token in ("one", "two", "three")] == [
            *(False, True, True)
        ]

    async def test_a_bad_one_is_bad_every_time_and_after_a_good_one(self, tmp_path: Path) -> None:
        settings = Settings(data_dir=tmp_path)
        good = make_token(settings, name="tests", role=Role.VIEWER, lifetime=timedelta(hours=1))
        bad = f"{good[:-4]}{'AAAA' if good[-4:] != 'AAAA' else 'BBBB'}"
        reader = TokenReader(settings)
        for _ in range(2):
            assert (await reader.read(good)).name == "tests"
            with pytest.raises(NotSignedIn):
                await reader.read(bad)


@pytest.mark.parametrize("name", ["", " ", "a\nb", "\x00", "\ud800", "x" * 201])
def test_a_token_is_made_for_a_name_that_can_be_written_down(tmp_path: Path, name: str) -> None:
    settings = Settings(data_dir=tmp_path)
    with pytest.raises(InvalidInput, match="name: must have 1 to 200 printable characters"):
        make_token(settings, name=name, role=Role.VIEWER, lifetime=timedelta(hours=1))


def test_each_role_covers_itself_and_the_ones_below() -> None:
    covered = {role: {other for other in Role if role.covers(other)} for role in Role}
    assert covered == {
        Role.VIEWER: {Role.VIEWER},
        Role.OPERATOR: {Role.VIEWER, Role.OPERATOR},
        Role.ADMIN: {Role.VIEWER, Role.OPERATOR, Role.ADMIN},
    }
