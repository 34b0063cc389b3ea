"""What every command has in common, and the ones that need no database."""

import json
import os
import stat
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import httpx2 as httpx
import jwt
import pytest
from typer.testing import CliRunner

from evenbeat.cli.commands import app
from tests.support.processes import EVENBEAT
from tests.support.serving import SECRET, client_of

CANARY = "canary-that-nobody-may-see-and-long-enough"

COMMANDS = [
    *((), ("up",), ("server",), ("worker",), ("token",), ("tokens",)),
    *(("tokens", "list"), ("tokens", "revoke"), ("config",), ("db",)),
    ("balance",),
    *(("balance", name) for name in ("show", "preview", "apply", "undo", "forecast")),
    *(("db", name) for name in ("migrate", "rollback", "status", "url", "psql")),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help_that_says_what_it_does(command: tuple[str, ...]) -> None:
    # Not a process for each: a dozen of them take half a second each, and say the same.
    ended = CliRunner().invoke(app, [*command, "--help"], prog_name="evenbeat")
    assert ended.exit_code == 0
    assert f"Usage: evenbeat {' '.join(command)}".rstrip() in ended.output
    # The line after the usage is the command's own sentence.
    sentence = [line for line in ended.output.splitlines() if line.strip()][1]
    assert len(sentence.split()) >= 3, ended.output


def test_without_a_command_the_help_is_shown(evenbeat) -> None:
    ended = evenbeat()
    assert "Usage: evenbeat" in ended.stdout + ended.stderr


def test_the_version_is_the_packages(evenbeat) -> None:
    ended = evenbeat("--version")
    assert (ended.returncode, ended.stdout) == (0, f"evenbeat {version('evenbeat')}\n")


def test_a_command_that_needs_no_scheduler_does_not_wait_for_it_to_load() -> None:
    called = "from evenbeat.cli.commands import app; app(['schedule', 'every 1h'])"
    listed = f"import sys\ntry: {called}\nfinally: print(*sys.modules, sep='\\n')"
    ended = subprocess.run(
        [sys.executable, "-c", listed], capture_output=True, text=True, check=True
    )
    loaded = ended.stdout.splitlines()
    assert "evenbeat.cli.jobs.schedule" in loaded
    assert "evenbeat.app" not in loaded


def test_a_shell_completes_every_command(evenbeat) -> None:
    asked = {"_EVENBEAT_COMPLETE": "complete_bash", "COMP_WORDS": "evenbeat to", "COMP_CWORD": "1"}
    assert evenbeat(**asked).stdout.split() == ["token", "tokens"]


def test_a_reader_that_has_gone_away_ends_it_without_a_word(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        [EVENBEAT, "config"],
        env={"PATH": os.defpath},
        cwd=tmp_path,
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (1, b"")


INTERRUPTED = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)

# Ignored in whatever a shell has started in the background, tests among it.
signal.signal(signal.SIGINT, signal.default_int_handler)
module, sys.argv[1:] = sys.argv[1], ["up"]
sys.meta_path.insert(0, Interrupt())
from evenbeat.cli import main
main()
"""


@pytest.mark.parametrize(
    "module", ["typer", "evenbeat.config", "evenbeat.cli.ops.service", "fastapi"]
)
def test_ctrl_c_while_it_loads_ends_it_without_a_word(tmp_path: Path, module: str) -> None:
    program = [EVENBEAT.with_name("python"), "-c", INTERRUPTED, module]
    ended = subprocess.run(
        program, env={}, cwd=tmp_path, capture_output=True, timeout=300, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"")


@pytest.mark.parametrize(
    "arguments",
    [("nonesuch",), ("config", "-o", "xml")],
    ids=" ".join,
)
def test_wrong_usage_is_exit_code_2(evenbeat, arguments: tuple[str, ...]) -> None:
    ended = evenbeat(*arguments)
    assert ended.returncode == 2
    assert "Usage: evenbeat" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(("words", "meant"), [("jbos list", "jobs"), ("jobs lst", "list")])
def test_a_command_that_is_mistyped_is_told_with_the_one_that_was_meant(
    words: str, meant: str
) -> None:
    ended = CliRunner().invoke(app, words.split(), prog_name="evenbeat")
    assert (ended.exit_code, f"did you mean '{meant}'?" in ended.output) == (2, True)


def test_a_wrong_option_is_exit_code_2_and_named(evenbeat) -> None:
    ended = evenbeat("token", "--role", "root")
    assert ended.returncode == 2
    assert "--role" in ended.stderr


def test_config_shows_every_setting_its_value_and_where_it_comes_from(
    evenbeat, tmp_path: Path
) -> None:
    (tmp_path / "evenbeat.toml").write_text("concurrency = 7\n")
    ended = evenbeat("config", EVENBEAT_PORT="8061")
    assert ended.returncode == 0
    lines = {line.split()[0]: line.split() for line in ended.stdout.splitlines()}
    assert lines["port"][1:3] == ["8061", "EVENBEAT_PORT"]
    assert lines["concurrency"][1:3] == ["7", str(tmp_path / "evenbeat.toml")]
    assert lines["host"][1:3] == ["127.0.0.1", "default"]
    assert lines["database_url"][1:3] == ["-", "default"]
    assert lines["lease_duration"][1:3] == ["30s", "default"]


def test_config_as_json_can_be_read_by_programs(evenbeat) -> None:
    ended = evenbeat("config", "-o", "json", EVENBEAT_PORT="8061")
    assert ended.returncode == 0
    settings = {each["setting"]: each for each in json.loads(ended.stdout)}
    assert settings["port"]["value"] == 8061
    assert settings["port"]["from"] == "EVENBEAT_PORT"
    assert settings["database_url"]["value"] is None
    assert settings["lease_duration"]["value"] == "30s"
    assert all(each["meaning"] for each in settings.values())


@pytest.mark.parametrize("output", ["table", "json"])
def test_config_shows_no_secret(evenbeat, output: str) -> None:
    ended = evenbeat(
        *("config", "--output", output),
        EVENBEAT_JWT_SECRET=CANARY,
        DATABASE_URL=f"postgresql://evenbeat:{CANARY}@localhost/evenbeat",
    )
    assert ended.returncode == 0
    assert ended.stdout.count("(secret)") == 2
    assert CANARY not in ended.stdout + ended.stderr


@pytest.mark.parametrize("command", ["up", "config"])
def test_a_bad_setting_is_one_clear_line_and_exit_code_1(
    evenbeat, refuses, tmp_path: Path, command: str
) -> None:
    said = refuses(evenbeat(command, EVENBEAT_PROT="1"))
    assert said == "EVENBEAT_PROT: no such setting; did you mean port?"
    assert list(tmp_path.iterdir()) == []


def test_a_bad_value_on_the_command_line_is_named(evenbeat, refuses) -> None:
    said = refuses(evenbeat("up", "--port", "70000"))
    assert said.startswith("port: ")
    assert said.endswith("(from keyword)")


def test_secrets_are_in_no_error(evenbeat, refuses) -> None:
    ended = evenbeat("server", EVENBEAT_DATABASE_URL=f"postgresql://u:{CANARY}/x@host/db")
    refuses(ended)
    assert CANARY not in ended.stdout + ended.stderr


def test_auth_off_on_an_open_address_is_refused(evenbeat, refuses) -> None:
    said = refuses(evenbeat("up", "--host", "0.0.0.0", EVENBEAT_AUTH="off"))
    assert "auth can be off on loopback addresses only" in said


def test_an_address_that_is_not_ours_is_one_clear_line(evenbeat, refuses) -> None:
    assert "203.0.113.1" in refuses(evenbeat("server", "--host", "203.0.113.1", "--port", "0"))


def test_a_busy_port_is_told_before_anything_is_started(
    evenbeat, refuses, address: str, tmp_path: Path
) -> None:
    port = address.rpartition(":")[2]
    said = refuses(evenbeat("up", "--port", port))
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in said
    assert "EVENBEAT_PORT" in said
    assert list(tmp_path.iterdir()) == []


class TestToken:
    def test_it_is_alone_on_the_last_line_and_opens_the_api(self, evenbeat, address: str) -> None:
        ended = evenbeat("token", EVENBEAT_JWT_SECRET=SECRET)
        assert ended.returncode == 0
        assert "not recorded" in ended.stderr, "no database is running here"
        token = ended.stdout.splitlines()[-1]
        with client_of(address, token) as client:
            assert create(client).status_code == 201

    def test_its_role_is_the_one_asked_for(self, evenbeat, address: str) -> None:
        ended = evenbeat("token", "--role", "viewer", EVENBEAT_JWT_SECRET=SECRET)
        with client_of(address, ended.stdout.strip()) as client:
            answer = create(client)
        assert answer.status_code == 403
        assert "operator" in answer.json()["error"]

    def test_a_lifetime_out_of_range_is_refused(self, evenbeat, refuses) -> None:
        said = refuses(evenbeat("token", "--expires", "4000d", EVENBEAT_JWT_SECRET=SECRET))
        assert said.startswith("expires: ")

    def test_processes_that_start_at_once_make_one_secret(self, evenbeat, tmp_path: Path) -> None:
        started = [
            subprocess.Popen(
                [EVENBEAT, "token", "--name", "same", "--expires", "1h"],
                stdout=subprocess.PIPE,
                text=True,
                cwd=tmp_path,
                env={"PATH": os.environ.get("PATH", os.defpath)},
            )
            for _ in range(4)
        ]
        made = [process.communicate(timeout=300)[0].strip() for process in started]
        home = tmp_path / ".evenbeat"
        [file] = home.iterdir()
        assert file.name == "jwt-secret"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        secret = file.read_text()
        assert len(secret) >= 32
        assert all(is_signed_by(token, secret) for token in made)
        again = evenbeat("token").stdout.strip()
        assert is_signed_by(again, secret)
        assert file.read_text() == secret

    def test_a_secret_that_cannot_be_kept_is_one_clear_line(
        self, evenbeat, refuses, tmp_path: Path
    ) -> None:
        (tmp_path / ".evenbeat").write_text("a file where the directory should be")
        said = refuses(evenbeat("token"))
        assert said.startswith("jwt_secret: cannot be kept in ")
        assert said.endswith("set EVENBEAT_JWT_SECRET")


def create(client: httpx.Client) -> httpx.Response:
    return client.post(
        "/api/v1/jobs", json={"kind": "echo", "schedule": "once 2100-01-01T00:00:00Z"}
    )


def is_signed_by(token: str, secret: str) -> bool:
    return jwt.decode(token, secret, algorithms=["HS256"])["role"] == "operator"
