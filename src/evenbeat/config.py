"""Settings: one frozen value, read from keywords, the environment, evenbeat.toml and defaults.

The first of these that names a setting wins, and `origins` remembers which one it was.
"""

import ipaddress
import os
import sys
import tomllib
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    model_validator,
)

from evenbeat.core.errors import FieldError, InvalidInput, InvalidSettings
from evenbeat.core.suggestions import find_nearest_name
from evenbeat.core.time.durations import EXACT_DURATION, parse_duration

PREFIX = "EVENBEAT_"
# Variables of this prefix hold secrets that jobs refer to; they are no settings.
REFERRED_PREFIX = "EVENBEAT_SECRET_"
# The path of the settings file, and the step at which a proof kills us (observe/failpoint).
NO_SETTINGS = ("EVENBEAT_CONFIG", "EVENBEAT_FAILPOINT")
FILE = "evenbeat.toml"
# Names that other tools use; ours win where both are set.
ALIASES = {"DATABASE_URL": "database_url"}
# HS256 needs a secret as long as its digest.
SHORTEST_SECRET = 32


def read_duration(value: object) -> timedelta:
    if isinstance(value, timedelta):
        return value
    # Variables of the environment are text, numbers too.
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    try:
        return parse_duration(value, limits=EXACT_DURATION)
    except InvalidInput as error:
        raise ValueError(error.errors[0].message) from None


Duration = Annotated[timedelta, BeforeValidator(read_duration)]

# A hundred years: no row is older.
FOREVER = timedelta(days=36_500)


def read_retention(value: object) -> timedelta:
    return FOREVER if value == "forever" else read_duration(value)


Retention = Annotated[
    timedelta, BeforeValidator(read_retention), Field(ge=timedelta(0), le=FOREVER)
]


def read_labels(value: object) -> object:
    if not isinstance(value, str):
        return value
    return tuple(sorted({label.strip() for label in value.split(",") if label.strip()}))


Labels = Annotated[tuple[str, ...], BeforeValidator(read_labels)]


def check_database_url(url: SecretStr) -> SecretStr:
    """Refuse here what the driver would refuse with the password in its error."""
    parts = urlsplit(url.get_secret_value())
    hosts = parts.netloc.rpartition("@")[2].split(",")
    ports = [host.rpartition("]")[2].partition(":")[2] for host in hosts]
    # An unquoted / or ? in a password ends the host early; the @ is then behind it.
    is_torn = "@" in f"{parts.path}{parts.query}{parts.fragment}"
    is_torn = is_torn or not all(port.isdecimal() for port in ports if port)
    if parts.scheme not in ("postgresql", "postgres") or is_torn:
        raise ValueError(
            "is not the URL of a PostgreSQL database; write postgresql://user:password@host:5432/"
            "database, with special characters of the password as %XX"
        )
    return url


def check_secret(secret: SecretStr) -> SecretStr:
    if len(secret) < SHORTEST_SECRET:
        raise ValueError(f"must have at least {SHORTEST_SECRET} characters")
    return secret


def check_jwks_url(url: str) -> str:
    """Only protected addresses: an attacker who replaces the keys can sign in as any caller."""
    parts = urlsplit(url)
    is_here = parts.scheme == "http" and is_loopback(parts.hostname or "")
    is_file = parts.scheme == "file" and not parts.netloc and parts.path.startswith("/")
    if is_here or is_file or (parts.scheme == "https" and parts.hostname):
        return url
    raise ValueError("must be https://…, file:///…, or http:// on this machine")


class Settings(BaseModel):
    """Every setting. `evenbeat config` shows these descriptions."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    database_url: Annotated[SecretStr, AfterValidator(check_database_url)] | None = Field(
        None, description="external PostgreSQL, 15 or newer; unset: the embedded server"
    )
    pooler: Literal["auto", "on", "off"] = Field(
        "auto", description="whether connections go through a pooler; auto: detected"
    )
    data_dir: Path = Field(
        Path(".evenbeat"), description="directory of the embedded server and of generated secrets"
    )
    pg_port: int | None = Field(
        None, ge=1, le=65535, description="loopback port of the embedded server; unset: socket only"
    )
    pg_bin: Path | None = Field(
        None, description="directory of the PostgreSQL programs to use; unset: searched for"
    )
    host: str = Field("127.0.0.1", description="address the API listens on")
    port: int = Field(8060, ge=0, le=65535, description="port the API listens on; 0: any free one")
    metrics_port: int | None = Field(
        None, ge=0, le=65535, description="port for the metrics of a worker; unset: not served"
    )
    auth: Literal["on", "off"] = Field(
        "on", description="off: no tokens needed, allowed on loopback addresses only"
    )
    jwt_secret: Annotated[SecretStr, AfterValidator(check_secret)] | None = Field(
        None,
        description="secret that signs tokens (HS256); unset: generated once into data_dir",
    )
    jwt_secret_previous: Annotated[SecretStr, AfterValidator(check_secret)] | None = Field(
        None, description="the previous secret, whose tokens stay valid during a change"
    )
    jwt_jwks_url: Annotated[str, AfterValidator(check_jwks_url)] | None = Field(
        None, description="address of another issuer's public keys (RS256, ES256)"
    )
    jwt_audience: Annotated[str, Field(min_length=1, max_length=500)] | None = Field(
        None, description="`aud` that tokens must have; unset: not checked"
    )
    jwt_issuer: Annotated[str, Field(min_length=1, max_length=500)] | None = Field(
        None, description="`iss` that tokens must have; unset: not checked"
    )
    rate_limit: int = Field(
        1000,
        ge=0,
        le=1_000_000,
        description="requests per second that one caller may send to one process; 0: no limit",
    )
    labels: Labels = Field(
        (), description="labels of this node that jobs may require, as in gpu,eu"
    )
    concurrency: int = Field(100, ge=1, le=10_000, description="runs at once on one node")
    pool_size: int = Field(10, ge=2, le=500, description="database connections of one process")
    lease_duration: Duration = Field(
        timedelta(seconds=30),
        ge=timedelta(seconds=1),
        le=timedelta(hours=1),
        description="how long a node counts as alive after its last sign of life",
    )
    check_interval: Duration = Field(
        timedelta(seconds=1),
        ge=timedelta(milliseconds=100),
        le=timedelta(seconds=10),
        description="how often a node checks for due jobs when no notification wakes it",
    )
    stale_check_interval: Duration = Field(
        timedelta(seconds=5),
        ge=timedelta(milliseconds=100),
        le=timedelta(minutes=5),
        description="how often a node checks for dead nodes",
    )
    drain_timeout: Duration = Field(
        timedelta(seconds=20),
        ge=timedelta(0),
        le=timedelta(hours=1),
        description="how long a stopping node lets its runs finish before it hands them back",
    )
    keep_runs: int = Field(
        100,
        ge=0,
        le=1_000_000,
        description="number of newest runs of a job that are kept, whatever their age",
    )
    keep_runs_for: Retention = Field(
        timedelta(days=30),
        description="how long every run is kept, with its log lines; `forever` is allowed",
    )
    keep_finished_jobs_for: Retention = Field(
        timedelta(days=7),
        description="how long ended one-off jobs and deleted jobs are kept",
    )
    keep_statistics_for: Retention = Field(
        timedelta(days=400), description="how long the daily figures of jobs and kinds are kept"
    )
    keep_dead_letters_for: Retention = Field(
        timedelta(days=30),
        description="how long acknowledged, requeued and discarded dead letters are kept",
    )
    housekeeping_interval: Duration = Field(
        timedelta(minutes=10),
        ge=timedelta(seconds=1),
        le=timedelta(days=1),
        description="how often housekeeping removes what has been kept long enough",
    )
    balancing: Literal["on", "observe", "off"] = Field(
        "on",
        description="place jobs where the load is least; observe: only count it; off: neither",
    )
    housekeeping_share: float = Field(
        0.1,
        ge=0.01,
        le=1,
        description="largest share of time that all nodes together spend on housekeeping",
    )
    metrics_interval: Duration = Field(
        timedelta(seconds=30),
        ge=timedelta(seconds=1),
        le=timedelta(hours=1),
        description="how often a node takes the figures of the whole cluster",
    )
    ready_lag: Duration = Field(
        timedelta(seconds=60),
        ge=timedelta(seconds=1),
        le=timedelta(days=1),
        description="how late a job may be before /readyz answers `not ready`",
    )
    score_interval: Duration = Field(
        timedelta(minutes=5),
        ge=timedelta(seconds=1),
        le=timedelta(hours=1),
        description="how often a node measures how even the load is",
    )
    score_threshold: float = Field(
        0.7, ge=0, le=1, description="score below which /readyz and the metrics report uneven load"
    )
    stop_grace: Duration = Field(
        timedelta(seconds=5),
        ge=timedelta(0),
        le=timedelta(minutes=5),
        description="how long a run may clean up after it was asked to stop",
    )
    app: str | None = Field(None, description="your app with its handlers, as in package.module:eb")
    secrets_dir: Path | None = Field(
        None, description="directory of secrets, one file each, besides EVENBEAT_SECRET_* variables"
    )
    sql_url: Annotated[SecretStr, AfterValidator(check_database_url)] | None = Field(
        None, description="login for SQL functions; unset: Evenbeat creates one"
    )
    sql_connections: int = Field(
        10, ge=1, le=500, description="SQL functions that run at once on one node"
    )
    programs: Literal["on", "off"] = Field(
        "off", description="on: run jobs of kind program, a shell for everyone who may add jobs"
    )
    allow_private_networks: bool = Field(
        False, description="let http jobs call private, loopback and link-local addresses"
    )
    allowed_networks: Labels = Field(
        (),
        description="private networks and hosts that http jobs may call, as in 10.1.0.0/16",
    )
    log_format: Literal["console", "json"] = Field("console", description="format of log lines")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="lowest level of log lines to show"
    )
    clock: Literal["database", "set"] = Field(
        "database", description="set: a clock that tests move; database: the server's own"
    )

    _origins: dict[str, str] = PrivateAttr(default_factory=dict[str, str])

    @property
    def origins(self) -> Mapping[str, str]:
        """The origin of each value: keyword, a variable's name, a file, or default."""
        return {name: self._origins.get(name, "default") for name in type(self).model_fields}

    def with_origins(self, origins: Mapping[str, str]) -> Self:
        self._origins.update(origins)
        return self

    @model_validator(mode="after")
    def _auth_is_off_on_loopback_only(self) -> Self:
        if self.auth == "off" and not is_loopback(self.host):
            raise ValueError(
                f"auth can be off on loopback addresses only, and host is {self.host}: "
                "set auth to on, or host to 127.0.0.1"
            )
        return self

    @model_validator(mode="after")
    def _programs_run_on_linux_only(self) -> Self:
        if self.programs == "on" and sys.platform != "linux":
            raise ValueError(
                "programs can be on under Linux only: elsewhere child processes could be left over"
            )
        return self


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def load(
    environ: Mapping[str, str] | None = None, cwd: Path | None = None, **keywords: Any
) -> Settings:
    """Settings from keywords > environment > evenbeat.toml > defaults. Raises InvalidSettings."""
    environ = os.environ if environ is None else environ
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    layers = (
        from_file(environ, cwd or Path.cwd()),
        from_environment(environ),
        {name: (value, "keyword") for name, value in keywords.items() if value is not None},
    )
    for layer in layers:
        for name, (value, origin) in layer.items():
            refuse_unknown(name, origin)
            values[name], origins[name] = value, origin
    try:
        settings = Settings(**values)
    except ValidationError as error:
        raise explain(error, origins) from None
    return settings.with_origins(origins)


def from_environment(environ: Mapping[str, str]) -> dict[str, tuple[Any, str]]:
    found: dict[str, tuple[Any, str]] = {}
    for variable, name in ALIASES.items():
        if environ.get(variable):
            found[name] = environ[variable], variable
    for variable, value in environ.items():
        # An empty variable means unset: shells and compose files have no other way.
        is_setting = variable.startswith(PREFIX) and variable not in NO_SETTINGS
        if is_setting and not variable.startswith(REFERRED_PREFIX) and value:
            found[variable.removeprefix(PREFIX).lower()] = value, variable
    return found


def from_file(environ: Mapping[str, str], cwd: Path) -> dict[str, tuple[Any, str]]:
    chosen = environ.get(f"{PREFIX}CONFIG")
    path = Path(chosen) if chosen else cwd / FILE
    try:
        with path.open("rb") as file:
            return {name: (value, str(path)) for name, value in tomllib.load(file).items()}
    except FileNotFoundError:
        if chosen:
            raise InvalidSettings(f"{PREFIX}CONFIG", f"there is no file {path}") from None
        return {}
    except (OSError, ValueError) as error:
        raise InvalidSettings(str(path), f"cannot be read: {error}") from None


def refuse_unknown(name: str, origin: str) -> None:
    if name in Settings.model_fields:
        return
    near = find_nearest_name(name, Settings.model_fields)
    advice = f"did you mean {near}?" if near else "`evenbeat config` lists all settings"
    where = "" if origin.startswith(PREFIX) else f" in {origin}"
    shown = origin if origin.startswith(PREFIX) else name
    raise InvalidSettings(shown, f"no such setting{where}; {advice}")


def explain(error: ValidationError, origins: Mapping[str, str]) -> InvalidSettings:
    first, *more = (
        FieldError(
            ".".join(map(str, fault["loc"])) or "settings",
            fault["msg"].removeprefix("Value error, ")
            + (f" (from {origins[str(fault['loc'][0])]})" if fault["loc"] else ""),
        )
        for fault in error.errors()
    )
    return InvalidSettings(first.field, first.message, more=more)
