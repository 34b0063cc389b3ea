"""Sign-in over HTTP: who may do what, and that nobody else may."""

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import httpx2 as httpx
import jwt
import pytest

from evenbeat.core.ops.access import Role
from tests.support.serving import (
    SECRET,
    assert_problem,
    client_of,
    server_environ,
    serving,
    token_for,
)

JOBS = "/api/v1/jobs"
UNKNOWN = f"{JOBS}/01890000-0000-7000-8000-000000000000"
OTHER_SECRET = "another secret, of which the server knows nothing"
JOB = {"kind": "echo", "schedule": "once 2100-01-01T00:00:00Z"}


def soon(**duration: float) -> datetime:
    return datetime.now(UTC) + timedelta(**duration)


def signed(header: object, claims: object, secret: str = SECRET, digest: str = "sha256") -> str:
    """A token made by hand, since PyJWT refuses to make most bad ones."""
    parts = [coded(json.dumps(part).encode()) for part in (header, claims)]
    message = ".".join(parts)
    signature = hmac.digest(secret.encode(), message.encode(), digest)
    return f"{message}.{coded(signature)}"


def coded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def claims(**more: object) -> dict[str, object]:
    return {"sub": "tests", "role": "admin", "exp": int(soon(hours=1).timestamp()), **more}


GOOD = signed({"alg": "HS256", "typ": "JWT"}, claims())
HEADER, CLAIMS, SIGNATURE = GOOD.split(".")


def unsigned(name: str) -> str:
    return signed({"alg": name}, claims()).rpartition(".")[0] + "."


def with_header(header: bytes) -> str:
    return f"{coded(header)}.{CLAIMS}.{SIGNATURE}"


BAD_TOKENS = {
    "garbage": "garbage",
    "dots": "..",
    "two parts": f"{HEADER}.{CLAIMS}",
    "four parts": f"{GOOD}.{SIGNATURE}",
    "no signature": f"{HEADER}.{CLAIMS}.",
    "another's claims": f"{HEADER}.{coded(json.dumps(claims(sub='root')).encode())}.{SIGNATURE}",
    "a cut signature": GOOD[:-4],
    "wrong secret": signed({"alg": "HS256"}, claims(), OTHER_SECRET),
    "empty secret": signed({"alg": "HS256"}, claims(), ""),
    "alg none": unsigned("none"),
    "alg None": unsigned("None"),
    "alg nOnE": unsigned("nOnE"),
    "alg none, signed": signed({"alg": "none"}, claims()),
    "alg HS384": signed({"alg": "HS384"}, claims(), digest="sha384"),
    "alg HS512": signed({"alg": "HS512"}, claims(), digest="sha512"),
    "alg RS256": signed({"alg": "RS256"}, claims()),
    "alg ES256": signed({"alg": "ES256"}, claims()),
    "alg hs256": signed({"alg": "hs256"}, claims()),
    "no alg": signed({"typ": "JWT"}, claims()),
    "alg is a list": signed({"alg": ["HS256"]}, claims()),
    "alg is null": signed({"alg": None}, claims()),
    "kid is a path": signed({"alg": "HS256", "kid": "../../dev/null"}, claims(), ""),
    "kid is a number": signed({"alg": "HS256", "kid": 7}, claims()),
    "its own key": signed(
        {"alg": "HS256", "jwk": {"kty": "oct", "k": coded(OTHER_SECRET.encode())}},
        claims(),
        OTHER_SECRET,
    ),
    "keys elsewhere": signed(
        {"alg": "HS256", "jku": "http://127.0.0.1/keys", "x5u": "http://127.0.0.1/"},
        claims(),
        OTHER_SECRET,
    ),
    "critical extension": signed({"alg": "HS256", "crit": ["x"], "x": 1}, claims()),
    "header is a list": signed([], claims()),
    "header is nested deeply": with_header(b"[" * 5_000),
    "header has a huge number": with_header(b'{"alg": ' + b"9" * 5_000 + b"}"),
    "header is not UTF-8": with_header(b'{"alg": "\xff"}'),
    "claims are a list": signed({"alg": "HS256"}, []),
    "expired": signed({"alg": "HS256"}, claims(exp=int(soon(minutes=-2).timestamp()))),
    "expired long ago": signed({"alg": "HS256"}, claims(exp=1)),
    "no exp": signed({"alg": "HS256"}, {"sub": "tests", "role": "admin"}),
    "exp is null": signed({"alg": "HS256"}, claims(exp=None)),
    "exp is a text": signed({"alg": "HS256"}, claims(exp="never")),
    "exp is infinite": signed({"alg": "HS256"}, claims(exp=float("inf"))),
    "exp is not a number": signed({"alg": "HS256"}, claims(exp=float("nan"))),
    "not before tomorrow": signed({"alg": "HS256"}, claims(nbf=int(soon(days=1).timestamp()))),
    "issued tomorrow": signed({"alg": "HS256"}, claims(iat=int(soon(days=1).timestamp()))),
    "unknown role": signed({"alg": "HS256"}, claims(role="root")),
    "role in capitals": signed({"alg": "HS256"}, claims(role="ADMIN")),
    "role is null": signed({"alg": "HS256"}, claims(role=None)),
    "role is a list": signed({"alg": "HS256"}, claims(role=["admin"])),
    "two roles": signed({"alg": "HS256"}, claims(role="viewer admin")),
    "10 kB": "x" * 10_000,
    "a good one of 10 kB": signed({"alg": "HS256"}, claims(padding="x" * 10_000)),
    "50 kB": f"{HEADER}.{'x' * 50_000}.{SIGNATURE}",
}


@pytest.mark.parametrize("token", BAD_TOKENS.values(), ids=BAD_TOKENS)
def test_a_bad_token_is_401_and_nobody_says_why(stranger: httpx.Client, token: str) -> None:
    answer = stranger.get(UNKNOWN, headers={"authorization": f"Bearer {token}"})
    problem = assert_problem(answer, 401)
    assert problem["error"] == "invalid token"
    assert answer.headers["www-authenticate"] == "Bearer"


def test_the_good_token_that_the_bad_ones_were_made_of_is_good(stranger: httpx.Client) -> None:
    answer = stranger.get(UNKNOWN, headers={"authorization": f"Bearer {GOOD}"})
    assert answer.status_code == 404


def test_a_token_of_100_kb_is_refused_before_it_is_read(stranger: httpx.Client) -> None:
    answer = stranger.get(UNKNOWN, headers={"authorization": f"Bearer {'x' * 100_000}"})
    assert answer.status_code in (400, 401, 431)


@pytest.mark.parametrize(("method", "path"), [("POST", JOBS), ("GET", UNKNOWN)])
@pytest.mark.parametrize("headers", [{}, {"authorization": ""}, {"authorization": "Bearer"}])
def test_no_token_is_401(
    stranger: httpx.Client, method: str, path: str, headers: dict[str, str]
) -> None:
    answer = stranger.request(method, path, headers=headers)
    problem = assert_problem(answer, 401)
    assert problem["error"] == "missing authorization"
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("scheme", ["Basic", "Token", "JWT"])
def test_another_scheme_than_bearer_is_401(stranger: httpx.Client, scheme: str) -> None:
    answer = stranger.get(UNKNOWN, headers={"authorization": f"{scheme} {GOOD}"})
    assert assert_problem(answer, 401)["error"] == "invalid token"


def test_the_scheme_is_read_in_any_case(stranger: httpx.Client) -> None:
    answer = stranger.get(UNKNOWN, headers={"authorization": f"bearer {GOOD}"})
    assert answer.status_code == 404


def test_whoever_is_not_signed_in_learns_nothing_about_what_is_there(
    stranger: httpx.Client, api: httpx.Client
) -> None:
    job = api.post(JOBS, json=JOB).json()
    assert_problem(stranger.get(f"{JOBS}/{job['id']}"), 401)
    assert_problem(stranger.get(f"{JOBS}/not-even-an-id"), 401)
    assert_problem(stranger.post(JOBS, json={"kind": 7}), 401)


# Every operation with the least role that may use it; one that is missing fails the next test.
LEAST_ROLE = {
    ("GET", "/api/v1/jobs"): Role.VIEWER,
    ("POST", "/api/v1/jobs"): Role.OPERATOR,
    ("POST", "/api/v1/jobs/actions"): Role.OPERATOR,
    ("POST", "/api/v1/jobs/batch"): Role.OPERATOR,
    ("PUT", "/api/v1/jobs/named/{name}"): Role.OPERATOR,
    ("GET", "/api/v1/jobs/status-counts"): Role.VIEWER,
    ("GET", "/api/v1/jobs/{job_id}"): Role.VIEWER,
    ("PUT", "/api/v1/jobs/{job_id}"): Role.OPERATOR,
    ("PATCH", "/api/v1/jobs/{job_id}"): Role.OPERATOR,
    ("DELETE", "/api/v1/jobs/{job_id}"): Role.OPERATOR,
    ("POST", "/api/v1/jobs/{job_id}/pause"): Role.OPERATOR,
    ("POST", "/api/v1/jobs/{job_id}/resume"): Role.OPERATOR,
    ("POST", "/api/v1/jobs/{job_id}/cancel"): Role.OPERATOR,
    ("POST", "/api/v1/jobs/{job_id}/retry"): Role.OPERATOR,
    ("POST", "/api/v1/jobs/{job_id}/run"): Role.OPERATOR,
    ("POST", "/api/v1/jobs/{job_id}/enable"): Role.OPERATOR,
    ("POST", "/api/v1/jobs/{job_id}/disable"): Role.OPERATOR,
    ("POST", "/api/v1/jobs/{job_id}/release"): Role.ADMIN,
    ("POST", "/api/v1/jobs/{job_id}/restore"): Role.OPERATOR,
    ("GET", "/api/v1/jobs/{job_id}/executions"): Role.VIEWER,
    ("GET", "/api/v1/jobs/{job_id}/explain"): Role.VIEWER,
    ("GET", "/api/v1/jobs/{job_id}/stats"): Role.VIEWER,
    ("GET", "/api/v1/jobs/{job_id}/versions"): Role.VIEWER,
    ("GET", "/api/v1/executions/{execution_id}"): Role.VIEWER,
    ("GET", "/api/v1/jobs/{job_id}/stats/trend"): Role.VIEWER,
    ("GET", "/api/v1/stats"): Role.VIEWER,
    ("GET", "/api/v1/stats/trend"): Role.VIEWER,
    ("GET", "/api/v1/scheduler/metrics"): Role.VIEWER,
    ("GET", "/api/v1/scheduler/distribution"): Role.VIEWER,
    ("POST", "/api/v1/scheduler/rebalance/preview"): Role.OPERATOR,
    ("POST", "/api/v1/scheduler/rebalance"): Role.OPERATOR,
    ("POST", "/api/v1/scheduler/rebalance/undo"): Role.OPERATOR,
    ("GET", "/api/v1/scheduler/rebalance/plans"): Role.VIEWER,
    ("GET", "/api/v1/scheduler/rebalance/plans/{plan_id}"): Role.VIEWER,
    ("GET", "/api/v1/scheduler/score/history"): Role.VIEWER,
    ("GET", "/api/v1/scheduler/forecast"): Role.VIEWER,
    ("POST", "/api/v1/scheduler/forecast"): Role.VIEWER,
    ("POST", "/api/v1/schedule/preview"): Role.VIEWER,
    ("GET", "/api/v1/groups"): Role.VIEWER,
    ("GET", "/api/v1/groups/{key}"): Role.VIEWER,
    ("PUT", "/api/v1/groups/{key}"): Role.OPERATOR,
    ("POST", "/api/v1/groups/{key}/pause"): Role.OPERATOR,
    ("POST", "/api/v1/groups/{key}/resume"): Role.OPERATOR,
    ("GET", "/api/v1/dead-letters"): Role.VIEWER,
    ("GET", "/api/v1/dead-letters/groups"): Role.VIEWER,
    ("POST", "/api/v1/dead-letters/actions"): Role.OPERATOR,
    ("GET", "/api/v1/dead-letters/{dead_letter_id}"): Role.VIEWER,
    ("POST", "/api/v1/dead-letters/{dead_letter_id}/acknowledge"): Role.OPERATOR,
    ("POST", "/api/v1/dead-letters/{dead_letter_id}/requeue"): Role.OPERATOR,
    ("POST", "/api/v1/dead-letters/{dead_letter_id}/discard"): Role.OPERATOR,
    ("GET", "/api/v1/templates"): Role.VIEWER,
    ("GET", "/api/v1/templates/{name}"): Role.VIEWER,
    ("PUT", "/api/v1/templates/{name}"): Role.OPERATOR,
    ("DELETE", "/api/v1/templates/{name}"): Role.OPERATOR,
    ("POST", "/api/v1/templates/{name}/jobs"): Role.OPERATOR,
    ("GET", "/api/v1/nodes"): Role.VIEWER,
    ("POST", "/api/v1/nodes/{node_id}/drain"): Role.ADMIN,
    ("POST", "/api/v1/nodes/{node_id}/undrain"): Role.ADMIN,
    ("GET", "/api/v1/audit"): Role.ADMIN,
    ("GET", "/api/v1/maintenance"): Role.VIEWER,
    ("PUT", "/api/v1/maintenance"): Role.ADMIN,
    ("DELETE", "/api/v1/maintenance"): Role.ADMIN,
    ("POST", "/api/v1/tokens"): Role.ADMIN,
    ("GET", "/api/v1/tokens"): Role.ADMIN,
    ("GET", "/api/v1/tokens/{token_id}"): Role.ADMIN,
    ("DELETE", "/api/v1/tokens/{token_id}"): Role.ADMIN,
    ("GET", "/tasks"): Role.VIEWER,
    ("POST", "/tasks"): Role.OPERATOR,
    ("GET", "/tasks/{id}"): Role.VIEWER,
    ("GET", "/tasks/{id}/runs"): Role.VIEWER,
    ("POST", "/tasks/{id}/cancel"): Role.OPERATOR,
    ("GET", "/actuator/health"): None,
    ("GET", "/actuator/health/liveness"): None,
    ("GET", "/actuator/health/readiness"): None,
    ("GET", "/actuator/info"): None,
    ("GET", "/livez"): None,
    ("GET", "/readyz"): None,
    ("GET", "/metrics"): Role.VIEWER,
}


def test_every_operation_has_a_least_role(api: httpx.Client) -> None:
    paths = api.get("/openapi.json").json()["paths"]
    operations = {(verb.upper(), path) for path, verbs in paths.items() for verb in verbs}
    assert operations == LEAST_ROLE.keys()


@pytest.mark.parametrize("role", [None, *Role], ids=str)
@pytest.mark.parametrize("operation", LEAST_ROLE, ids=" ".join)
def test_an_operation_is_open_to_its_least_role_and_the_ones_above(
    address: str, operation: tuple[str, str], role: Role | None
) -> None:
    method, template = operation
    path = re.sub(r"{\w+}", "01890000-0000-7000-8000-000000000000", template)
    path = path.replace("/nodes/01890000-0000-7000-8000-000000000000", "/nodes/7")
    # An id that nobody has, and a body that only some can use: who is let in gets as far as that.
    body = {"name": "tests"} if template.endswith("/tokens") else JOB
    with client_of(address, role and token_for(role)) as client:
        answer = client.request(method, path, json=None if method == "GET" else body)
    least = LEAST_ROLE[operation]
    if least is None or (role is not None and role.covers(least)):
        refusal = 400 if path.startswith("/tasks") else 422
        assert answer.status_code in (200, 201, 404, refusal)
    else:
        problem = assert_problem(answer, 403 if role else 401)
        assert role is None or least.value in str(problem["error"])


def test_a_token_without_a_role_is_an_operators(address: str) -> None:
    bare = jwt.encode({"sub": "s1", "exp": soon(hours=1)}, SECRET, algorithm="HS256")
    with client_of(address, bare) as client:
        assert client.post(JOBS, json=JOB).status_code == 201


def test_a_token_needs_no_name(address: str) -> None:
    bare = jwt.encode({"exp": soon(hours=1)}, SECRET, algorithm="HS256")
    with client_of(address, bare) as client:
        assert client.get(UNKNOWN).status_code == 404


def test_the_description_of_the_api_needs_a_viewer(address: str, stranger: httpx.Client) -> None:
    assert_problem(stranger.get("/openapi.json"), 401)
    with client_of(address, token_for(Role.VIEWER)) as viewer:
        document = viewer.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    assert document["info"]["title"] == "Evenbeat"
    assert "/api/v1/jobs" in document["paths"]


def test_the_secret_is_in_no_answer(api: httpx.Client, stranger: httpx.Client) -> None:
    answers = [
        stranger.get(UNKNOWN),
        stranger.get(UNKNOWN, headers={"authorization": f"Bearer {GOOD[:-4]}"}),
        api.get("/openapi.json"),
        api.get("/readyz"),
    ]
    digest = hashlib.sha256(SECRET.encode()).hexdigest()
    assert not [each for each in answers if SECRET in each.text or digest in each.text]


@pytest.fixture(scope="module")
def open_address(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    place = tmp_path_factory.mktemp("open")
    environ = server_environ(database_url, place / "home") | {"EVENBEAT_AUTH": "off"}
    del environ["EVENBEAT_JWT_SECRET"]
    with serving("server", environ, place) as url:
        yield url
    assert not (place / "home").exists(), "no secret is made that nobody needs"


@pytest.mark.parametrize("token", [None, "garbage"])
def test_with_auth_off_everybody_may_do_everything(open_address: str, token: str | None) -> None:
    with client_of(open_address, token) as client:
        assert client.post(JOBS, json=JOB).status_code == 201
        assert client.get(UNKNOWN).status_code == 404
        assert client.get("/openapi.json").status_code == 200
