"""Attacks on tokens, RFC 8725 row by row: all are refused, and no error says why."""

import base64
import hmac
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization

from evenbeat.config import Settings
from evenbeat.control.ops.token_signing import make_token
from evenbeat.core.errors import NotSignedIn
from evenbeat.core.ops.access import Role
from evenbeat.web.jwks import VerificationKey
from evenbeat.web.token_checks import LEEWAY, LONGEST_TOKEN, Expected, TokenReader, claims_of
from tests.support.issuer import Issuer, Signer, publishing
from tests.support.serving import SECRET

MakeSettings = Callable[..., Settings]
OLD_SECRET = "the secret of last year, which is long enough too"
HEADERS_WITH_KEYS = ["jku", "x5u", "x5c", "jwk"]


def in_seconds(seconds: float) -> int:
    return int(datetime.now(UTC).timestamp() + seconds)


def coded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def forged(header: dict[str, Any], claims: dict[str, Any], secret: bytes) -> str:
    """A token signed by HMAC with any bytes, which PyJWT refuses to do."""
    message = ".".join(coded(json.dumps(part).encode()) for part in (header, claims))
    return f"{message}.{coded(hmac.digest(secret, message.encode(), 'sha256'))}"


def ours(secret: str = SECRET, **claims: object) -> str:
    given = {"sub": "tests", "role": "admin", "exp": in_seconds(3600)} | claims
    kept = {name: value for name, value in given.items() if value is not None}
    return jwt.encode(kept, secret, "HS256")


async def refuses(reader: TokenReader, token: str) -> None:
    with pytest.raises(NotSignedIn) as caught:
        await reader.read(token)
    assert str(caught.value) == "invalid token"
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.fixture
def reader(settings_with: MakeSettings, issuer: Issuer) -> TokenReader:
    """Accepts our secret and the keys of an issuer: the setting with most to confuse."""
    return TokenReader(settings_with(jwt_jwks_url=issuer.url))


async def test_tokens_of_every_accepted_sort_are_good(
    reader: TokenReader, rsa_key: Signer, ec_key: Signer
) -> None:
    for token in (ours(), rsa_key.token(role="admin"), ec_key.token(role="admin")):
        assert (await reader.read(token)).role is Role.ADMIN


async def test_a_token_without_a_role_is_an_operators(reader: TokenReader, rsa_key: Signer) -> None:
    assert (await reader.read(rsa_key.token())).role is Role.OPERATOR


@pytest.mark.parametrize("role", ["root", "ADMIN", "", None, ["admin"], {"admin": 1}, 7, True])
async def test_a_role_that_does_not_exist_is_no_role(reader: TokenReader, role: object) -> None:
    claims = {"sub": "x", "exp": in_seconds(60), "role": role}
    await refuses(reader, forged({"alg": "HS256"}, claims, SECRET.encode()))


@pytest.mark.parametrize("name", ["none", "None", "nOnE", "NONE", "", "HS256 ", "hs256"])
async def test_no_algorithm_is_taken_on_the_tokens_word(reader: TokenReader, name: str) -> None:
    claims = {"sub": "x", "role": "admin", "exp": in_seconds(60)}
    signed = forged({"alg": name}, claims, SECRET.encode())
    await refuses(reader, signed)
    await refuses(reader, signed.rpartition(".")[0] + ".")


@pytest.mark.parametrize("form", ["pem", "der", "pkcs1", "jwk", "n"])
@pytest.mark.parametrize("algorithm", ["HS256", "RS256"])
async def test_a_public_key_is_never_a_secret(
    reader: TokenReader, rsa_key: Signer, form: str, algorithm: str
) -> None:
    encodings, formats = serialization.Encoding, serialization.PublicFormat
    public = rsa_key.private.public_key()
    secret = {
        "pem": public.public_bytes(encodings.PEM, formats.SubjectPublicKeyInfo),
        "der": public.public_bytes(encodings.DER, formats.SubjectPublicKeyInfo),
        "pkcs1": public.public_bytes(encodings.PEM, formats.PKCS1),
        "jwk": json.dumps(rsa_key.jwk()).encode(),
        "n": str(rsa_key.jwk()["n"]).encode(),
    }[form]
    claims = {"sub": "x", "role": "admin", "exp": in_seconds(60)}
    for kid in ({"kid": "rsa-1"}, {}):
        await refuses(reader, forged({"alg": algorithm, **kid}, claims, secret))


async def test_a_key_is_good_for_its_own_algorithm_only(
    reader: TokenReader, rsa_key: Signer, ec_key: Signer
) -> None:
    for algorithm in ("RS384", "RS512", "PS256"):
        claims = {"sub": "x", "exp": in_seconds(60)}
        await refuses(
            reader, jwt.encode(claims, rsa_key.private, algorithm, headers={"kid": "rsa-1"})
        )
    await refuses(reader, rsa_key.token({"kid": "ec-1"}))
    await refuses(reader, ec_key.token({"kid": "rsa-1"}))


def test_even_the_right_key_reads_no_other_algorithm(rsa_key: Signer) -> None:
    """A second protection, should a key ever be found for a token of another algorithm."""
    key = VerificationKey("RS256", rsa_key.private.public_key())
    claims = {"sub": "x", "exp": in_seconds(60)}
    for algorithm in ("RS384", "RS512", "PS256"):
        with pytest.raises(NotSignedIn):
            claims_of(jwt.encode(claims, rsa_key.private, algorithm), [key], Expected())
    assert claims_of(jwt.encode(claims, rsa_key.private, "RS256"), [key], Expected()) == claims


@pytest.mark.parametrize(
    "kid",
    [
        *("", "../../../dev/null", "/dev/null", "/proc/self/environ", "file:///etc/passwd"),
        *("' or '1'='1", "rsa-1'; drop table evenbeat.access_token; --", "$(id)", "rsa-1\x00"),
        *("http://127.0.0.1:1/keys", "x" * 4_000, "RSA-1", " rsa-1", "rsa-1 ", "\u202ersa-1"),
    ],
)
async def test_a_kid_is_compared_and_nothing_else(
    reader: TokenReader, rsa_key: Signer, kid: str
) -> None:
    await refuses(reader, rsa_key.token({"kid": kid}))
    claims = {"sub": "x", "exp": in_seconds(60)}
    await refuses(reader, forged({"alg": "HS256", "kid": kid}, claims, b""))


@pytest.mark.parametrize("kid", [7, None, True, ["rsa-1"], {"rsa-1": 1}])
async def test_a_kid_that_is_no_text_is_not_a_way_in(reader: TokenReader, kid: object) -> None:
    claims = {"sub": "x", "exp": in_seconds(60)}
    await refuses(reader, forged({"alg": "RS256", "kid": kid}, claims, SECRET.encode()))


async def test_keys_that_a_token_brings_along_are_not_used(
    reader: TokenReader, issuer: Issuer
) -> None:
    thief = Signer("RS256", "thief")
    with publishing() as elsewhere:
        elsewhere.publish(thief.jwk())
        for name in HEADERS_WITH_KEYS:
            value = elsewhere.url if name in ("jku", "x5u") else thief.jwk()
            await refuses(reader, thief.token({name: value}))
            await refuses(reader, thief.token({name: value, "kid": "rsa-1"}))
        assert elsewhere.asked == 0
    assert issuer.asked == 1


async def test_a_strangers_key_of_a_known_name_is_refused(reader: TokenReader) -> None:
    await refuses(reader, Signer("RS256", "rsa-1").token(role="admin"))
    await refuses(reader, Signer("ES256", "ec-1").token(role="admin"))


TIMES = {
    "expired": {"exp": in_seconds(-3600)},
    "expired beyond the leeway": {"exp": in_seconds(-61)},
    "without an end": {"exp": None},
    "before its time": {"nbf": in_seconds(3600)},
    "before its time beyond the leeway": {"nbf": in_seconds(600)},
    "issued in the future": {"iat": in_seconds(3600)},
    "a text for an end": {"exp": "tomorrow"},
    "a list for an end": {"exp": [in_seconds(60)]},
}


@pytest.mark.parametrize("claims", TIMES.values(), ids=TIMES)
async def test_a_token_out_of_its_time_is_refused(
    reader: TokenReader, rsa_key: Signer, claims: dict[str, object]
) -> None:
    given = {"sub": "x", "exp": in_seconds(3600)} | claims
    kept = {name: value for name, value in given.items() if value is not None}
    await refuses(reader, forged({"alg": "HS256"}, kept, SECRET.encode()))
    if not isinstance(claims.get("exp"), str | list):
        await refuses(reader, rsa_key.token(**claims))


async def test_clocks_may_differ_by_the_leeway_and_that_is_short(reader: TokenReader) -> None:
    assert timedelta(0) < LEEWAY <= timedelta(seconds=60)
    assert (await reader.read(ours(exp=in_seconds(-5)))).name == "tests"
    await refuses(reader, ours(exp=in_seconds(-LEEWAY.total_seconds() - 2)))


@pytest.mark.parametrize(
    "name", ["", " ", "\x00", "a\nb", "x" * 201, "\u2028", 7, ["x"], {"x": 1}, True]
)
async def test_a_name_that_cannot_be_written_down_is_refused(
    reader: TokenReader, name: object
) -> None:
    claims = {"sub": name, "exp": in_seconds(60)}
    await refuses(reader, forged({"alg": "HS256"}, claims, SECRET.encode()))


@pytest.mark.parametrize("jti", [7, ["x"], None, True])
async def test_a_jti_that_is_no_text_is_refused(reader: TokenReader, jti: object) -> None:
    claims = {"exp": in_seconds(60), "jti": jti}
    await refuses(reader, forged({"alg": "HS256"}, claims, SECRET.encode()))


@pytest.mark.parametrize(
    "token",
    ["", ".", "..", "...", "a.b.c", "é.é.é", "\ud800.x.y", "x" * 100_000, "👻" * 50, "\x00" * 10],
    ids=lambda token: ascii(token)[:20],
)
async def test_garbage_is_refused(reader: TokenReader, token: str) -> None:
    await refuses(reader, token)


async def test_a_long_token_is_refused_however_good(reader: TokenReader) -> None:
    assert len(ours(padding="x" * 5_000)) < LONGEST_TOKEN
    assert (await reader.read(ours(padding="x" * 5_000))).name == "tests"
    await refuses(reader, ours(padding="x" * LONGEST_TOKEN))


class TestAudienceAndIssuer:
    @pytest.mark.parametrize(
        "claims",
        [
            {},
            {"aud": "evenbeat"},
            {"iss": "https://issuer.example"},
            {"aud": "other", "iss": "https://issuer.example"},
            {"aud": "evenbeat", "iss": "https://issuer.example.evil"},
            {"aud": "evenbeat", "iss": "https://ISSUER.example"},
            {"aud": ["other"], "iss": "https://issuer.example"},
            {"aud": [], "iss": "https://issuer.example"},
            {"aud": "evenbeat ", "iss": "https://issuer.example"},
        ],
    )
    async def test_wrong_or_missing_they_are_refused(
        self,
        settings_with: MakeSettings,
        issuer: Issuer,
        rsa_key: Signer,
        claims: dict[str, object],
    ) -> None:
        reader = TokenReader(
            settings_with(
                jwt_jwks_url=issuer.url,
                jwt_audience="evenbeat",
                jwt_issuer="https://issuer.example",
            )
        )
        await refuses(reader, rsa_key.token(**claims))
        await refuses(reader, ours(**claims))

    async def test_right_they_are_accepted_and_our_own_tokens_have_them(
        self, settings_with: MakeSettings
    ) -> None:
        settings = settings_with(jwt_audience="evenbeat", jwt_issuer="https://issuer.example")
        reader = TokenReader(settings)
        both = {"iss": "https://issuer.example", "aud": ["other", "evenbeat"]}
        assert (await reader.read(ours(**both))).name == "tests"
        made = make_token(settings, name="me", role=Role.VIEWER, lifetime=timedelta(hours=1))
        assert (await reader.read(made)).name == "me"

    async def test_not_configured_they_are_not_checked(self, reader: TokenReader) -> None:
        assert (await reader.read(ours(aud="anybody", iss="somebody"))).name == "tests"


class TestRotation:
    async def test_tokens_of_the_secret_before_stay_good_while_it_is_known(
        self, settings_with: MakeSettings
    ) -> None:
        old = ours(OLD_SECRET)
        await refuses(TokenReader(settings_with()), old)
        both = TokenReader(settings_with(jwt_secret_previous=OLD_SECRET))
        assert (await both.read(old)).name == "tests"
        assert (await both.read(ours())).name == "tests"
        await refuses(both, ours("a third secret, that was never in force here"))

    async def test_new_tokens_are_signed_with_the_secret_in_force(
        self, settings_with: MakeSettings
    ) -> None:
        settings = settings_with(jwt_secret_previous=OLD_SECRET)
        made = make_token(settings, name="me", role=Role.VIEWER, lifetime=timedelta(hours=1))
        assert jwt.decode(made, SECRET, algorithms=["HS256"])["sub"] == "me"

    async def test_an_expired_token_of_the_secret_before_is_refused(
        self, settings_with: MakeSettings
    ) -> None:
        reader = TokenReader(settings_with(jwt_secret_previous=OLD_SECRET))
        await refuses(reader, ours(OLD_SECRET, exp=in_seconds(-3600)))
