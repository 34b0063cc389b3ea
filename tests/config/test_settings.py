"""Settings: which source wins, what is refused, and what an error says."""

from datetime import timedelta
from pathlib import Path

import pytest

from evenbeat.config import Settings, load
from evenbeat.core.errors import InvalidSettings

CANARY = "canary-that-nobody-may-see"
SECRET = f"{CANARY}-and-long-enough-to-be-a-secret"
URL = f"postgresql://evenbeat:{CANARY}@localhost:5432/evenbeat"


@pytest.fixture
def toml(tmp_path: Path):
    """Writes evenbeat.toml where `load(cwd=…)` finds it."""

    def write(text: str) -> Path:
        path = tmp_path / "evenbeat.toml"
        path.write_text(text)
        return path

    return write


def refusal(environ: dict[str, str] | None = None, cwd: Path = Path("/"), **keywords) -> str:
    with pytest.raises(InvalidSettings) as caught:
        load(environ=environ or {}, cwd=cwd, **keywords)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_without_anything_every_setting_has_its_default(tmp_path: Path) -> None:
    settings = load(environ={}, cwd=tmp_path)
    assert settings == Settings()
    assert set(settings.origins.values()) == {"default"}
    assert settings.database_url is None
    assert (settings.host, settings.port, settings.auth) == ("127.0.0.1", 8060, "on")
    assert settings.data_dir == Path(".evenbeat")
    assert settings.concurrency == 100


def test_a_keyword_wins_over_the_environment_and_that_over_the_file(tmp_path: Path, toml) -> None:
    file = toml("port = 1\nhost = '::1'\nconcurrency = 1\n")
    environ = {"EVENBEAT_PORT": "2", "EVENBEAT_CONCURRENCY": "2"}
    settings = load(environ=environ, cwd=tmp_path, port=3)
    assert (settings.port, settings.concurrency, settings.host) == (3, 2, "::1")
    assert settings.pool_size == 10
    assert settings.origins["port"] == "keyword"
    assert settings.origins["concurrency"] == "EVENBEAT_CONCURRENCY"
    assert settings.origins["host"] == str(file)
    assert settings.origins["pool_size"] == "default"


def test_a_keyword_that_is_none_was_not_given(tmp_path: Path) -> None:
    settings = load(environ={"EVENBEAT_PORT": "2"}, cwd=tmp_path, port=None)
    assert settings.port == 2


def test_database_url_is_an_alias_and_ours_wins(tmp_path: Path) -> None:
    both = {"DATABASE_URL": "postgres://them/db", "EVENBEAT_DATABASE_URL": "postgres://us/db"}
    for environ in (both, dict(reversed(both.items()))):
        settings = load(environ=environ, cwd=tmp_path)
        assert settings.database_url is not None
        assert settings.database_url.get_secret_value() == "postgres://us/db"
        assert settings.origins["database_url"] == "EVENBEAT_DATABASE_URL"
    theirs = load(environ={"DATABASE_URL": "postgres://them/db"}, cwd=tmp_path)
    assert theirs.origins["database_url"] == "DATABASE_URL"


def test_an_empty_variable_is_unset(tmp_path: Path, toml) -> None:
    toml("port = 1\n")
    names = ("PORT", "DATABASE_URL", "JWT_SECRET", "CONFIG", "NONESUCH")
    environ = {f"EVENBEAT_{name}": "" for name in names} | {"DATABASE_URL": ""}
    settings = load(environ=environ, cwd=tmp_path)
    assert settings.port == 1
    assert settings.database_url is None
    assert settings.jwt_secret is None


def test_an_empty_variable_of_ours_does_not_hide_the_alias(tmp_path: Path) -> None:
    environ = {"EVENBEAT_DATABASE_URL": "", "DATABASE_URL": URL}
    assert load(environ=environ, cwd=tmp_path).origins["database_url"] == "DATABASE_URL"


def test_variables_of_others_are_left_alone(tmp_path: Path) -> None:
    assert load(environ={"PORT": "1", "EVENBEATER": "1"}, cwd=tmp_path).port == 8060


@pytest.mark.parametrize(
    ("name", "meant"), [("PROT", "port"), ("JWT_SECERT", "jwt_secret"), ("DATADIR", "data_dir")]
)
def test_an_unknown_variable_is_refused_with_what_was_meant(name: str, meant: str) -> None:
    said = refusal({f"EVENBEAT_{name}": CANARY})
    assert f"EVENBEAT_{name}: no such setting" in said
    assert f"did you mean {meant}?" in said
    assert CANARY not in said


def test_an_unknown_key_of_the_file_is_refused_with_what_was_meant(tmp_path: Path, toml) -> None:
    file = toml(f"jwt_secert = '{CANARY}'\n")
    said = refusal(cwd=tmp_path)
    assert said.startswith(f"jwt_secert: no such setting in {file}")
    assert "did you mean jwt_secret?" in said
    assert CANARY not in said


def test_a_table_of_the_file_is_an_unknown_key(tmp_path: Path, toml) -> None:
    toml("[server]\nport = 1\n")
    assert "server: no such setting" in refusal(cwd=tmp_path)


def test_an_unknown_keyword_is_refused() -> None:
    assert "did you mean port?" in refusal(prot=1)


def test_a_name_like_no_other_gets_advice_too() -> None:
    assert "`evenbeat config` lists all settings" in refusal({"EVENBEAT_QQQQQQ": "1"})


def test_evenbeat_config_names_another_file(tmp_path: Path, toml) -> None:
    toml("port = 1\n")
    other = tmp_path / "other.toml"
    other.write_text("port = 2\n")
    settings = load(environ={"EVENBEAT_CONFIG": str(other)}, cwd=tmp_path)
    assert settings.port == 2
    assert settings.origins["port"] == str(other)


def test_a_file_that_was_asked_for_must_be_there(tmp_path: Path) -> None:
    said = refusal({"EVENBEAT_CONFIG": str(tmp_path / "none.toml")})
    assert said == f"EVENBEAT_CONFIG: there is no file {tmp_path / 'none.toml'}"


@pytest.mark.parametrize(
    "content", [b"port = \n", b"port: 1\n", b"\xff\xfe", b"port = 1\nport = 2"]
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "evenbeat.toml"
    path.write_bytes(content)
    assert refusal(cwd=tmp_path).startswith(f"{path}: cannot be read: ")


def test_a_directory_in_place_of_the_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "evenbeat.toml").mkdir()
    assert "evenbeat.toml: cannot be read: " in refusal(cwd=tmp_path)


BAD_VALUES = {
    "port": ["x", "-1", "65536", "1.5", "８０６０x"],
    "pg_port": ["0", "65536", "x"],
    "auth": ["maybe", "OFF", "true"],
    "concurrency": ["0", "10001", "many"],
    "pool_size": ["1", "501"],
    "lease_duration": ["0s", "2h", "soon", "-5s"],
    "check_interval": ["1ms", "11s", "x"],
    "stale_check_interval": ["1ms", "1h"],
    "drain_timeout": ["2h", "x"],
    "log_format": ["xml"],
    "log_level": ["trace"],
    "clock": ["mine"],
    "jwt_secret": ["short", "x" * 31],
    "database_url": ["mysql://host/db", "host/db", "postgresql://u:p@host:port/db", "x"],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in BAD_VALUES.items() for value in values]
)
def test_a_bad_value_names_the_setting_and_where_it_came_from(
    name: str, value: str, tmp_path: Path, toml
) -> None:
    variable = f"EVENBEAT_{name.upper()}"
    said = refusal({variable: value}, cwd=tmp_path)
    assert said.startswith(f"{name}: ")
    assert said.endswith(f"(from {variable})")
    file = toml(f"{name} = '{value}'\n")
    assert refusal(cwd=tmp_path).endswith(f"(from {file})")


def test_every_bad_value_is_told_at_once() -> None:
    said = refusal({"EVENBEAT_PORT": "x", "EVENBEAT_AUTH": "maybe"})
    assert "port: " in said
    assert "auth: " in said


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("lease_duration", "1m30s", timedelta(seconds=90)),
        ("lease_duration", "90", timedelta(seconds=90)),
        ("check_interval", "250ms", timedelta(milliseconds=250)),
        ("drain_timeout", "0s", timedelta(0)),
        ("drain_timeout", "PT1H", timedelta(hours=1)),
        ("pg_port", "5433", 5433),
        ("data_dir", "/srv/evenbeat", Path("/srv/evenbeat")),
        ("port", "0", 0),
    ],
)
def test_a_good_value_is_read_from_text(
    tmp_path: Path, name: str, value: str, read: object
) -> None:
    settings = load(environ={f"EVENBEAT_{name.upper()}": value}, cwd=tmp_path)
    assert getattr(settings, name) == read


def test_the_file_may_use_its_own_types(tmp_path: Path, toml) -> None:
    toml("port = 8061\nlease_duration = 45\ncheck_interval = 0.5\n")
    settings = load(environ={}, cwd=tmp_path)
    assert settings.lease_duration == timedelta(seconds=45)
    assert settings.check_interval == timedelta(milliseconds=500)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_auth_can_be_off_on_loopback(host: str) -> None:
    assert load(environ={}, cwd=Path("/"), auth="off", host=host).auth == "off"


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "10.0.0.1", "192.168.1.1", "example.com", "localhost.evil.com", ""]
)
def test_auth_cannot_be_off_elsewhere(host: str) -> None:
    said = refusal(auth="off", host=host)
    assert "auth can be off on loopback addresses only" in said
    assert "set auth to on, or host to 127.0.0.1" in said


def test_another_address_is_fine_with_auth_on() -> None:
    assert load(environ={}, cwd=Path("/"), host="0.0.0.0").host == "0.0.0.0"


@pytest.mark.parametrize(
    "url",
    [
        URL,
        "postgres://host/db",
        "postgresql:///db?host=/run/postgresql",
        "postgresql://u:p@/db?host=%2Frun&port=5432",
        "postgresql://u:p@[::1]:5432/db",
        "postgresql://u:p@one:5432,two:5433/db?target_session_attrs=read-write",
    ],
)
def test_urls_of_every_form_are_accepted(url: str) -> None:
    settings = load(environ={}, cwd=Path("/"), database_url=url)
    assert settings.database_url is not None
    assert settings.database_url.get_secret_value() == url


def test_secrets_are_in_no_representation(tmp_path: Path) -> None:
    settings = load(environ={}, cwd=tmp_path, database_url=URL, jwt_secret=SECRET)
    assert CANARY not in repr(settings) + str(settings) + settings.model_dump_json()
    assert CANARY not in repr(settings.origins)


@pytest.mark.parametrize(
    "environ",
    [
        {"EVENBEAT_JWT_SECRET": CANARY},
        {"EVENBEAT_DATABASE_URL": CANARY},
        {"EVENBEAT_DATABASE_URL": f"postgresql://u:/{CANARY}@host/db"},
        {"EVENBEAT_DATABASE_URL": f"postgresql://u:{CANARY}/x@host/db"},
        {"EVENBEAT_DATABASE_URL": f"postgresql://u:p@host:{CANARY}/db"},
        {"DATABASE_URL": f"mysql://u:{CANARY}@host/db"},
        {"EVENBEAT_DATABASE_URL": URL, "EVENBEAT_JWT_SECRET": SECRET, "EVENBEAT_PORT": "x"},
        {"EVENBEAT_DATABASE_URL": URL, "EVENBEAT_AUTH": "off", "EVENBEAT_HOST": "0.0.0.0"},
    ],
)
def test_secrets_are_in_no_error(environ: dict[str, str]) -> None:
    assert CANARY not in refusal(environ)


def test_settings_never_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().port = 1  # type: ignore[misc]


def test_every_setting_says_what_it_means() -> None:
    assert all(field.description for field in Settings.model_fields.values())
