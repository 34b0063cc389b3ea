"""Public keys of another issuer: a real server that is down, slow, huge, or sends nonsense."""

import threading
from pathlib import Path

import pytest

from evenbeat.web import jwks
from evenbeat.web.jwks import PublicKeys
from tests.security.conftest import Stopwatch
from tests.support.issuer import Issuer, Signer, publishing


async def names(known: PublicKeys, kid: str | None = "rsa-1") -> list[str | None]:
    return [key.kid for key in await known.find("RS256", kid)]


@pytest.fixture
def known(issuer: Issuer, stopwatch: Stopwatch) -> PublicKeys:
    return PublicKeys(issuer.url, elapsed=stopwatch)


async def test_keys_are_fetched_once_and_remembered(known: PublicKeys, issuer: Issuer) -> None:
    assert [await names(known) for _ in range(5)] == [["rsa-1"]] * 5
    assert issuer.asked == 1


async def test_without_a_name_every_key_of_the_algorithm_may_be_it(
    known: PublicKeys, issuer: Issuer, rsa_key: Signer
) -> None:
    issuer.publish(rsa_key.jwk(), rsa_key.jwk(kid="other"))
    assert await names(known, None) == ["rsa-1", "other"]


async def test_keys_are_asked_for_again_when_they_are_old(
    known: PublicKeys, issuer: Issuer, stopwatch: Stopwatch, rsa_key: Signer
) -> None:
    await names(known)
    issuer.publish(rsa_key.jwk(kid="new"))
    stopwatch.passes(jwks.FRESH - 1)
    assert await names(known) == ["rsa-1"]
    assert issuer.asked == 1
    stopwatch.passes(2)
    assert await names(known) == [], "it was withdrawn"
    assert await names(known, "new") == ["new"]
    assert issuer.asked == 2


async def test_an_unknown_name_makes_us_ask_again_but_once_a_minute(
    known: PublicKeys, issuer: Issuer, stopwatch: Stopwatch, rsa_key: Signer
) -> None:
    await names(known)
    stopwatch.passes(jwks.PAUSE)
    for number in range(100):
        assert await names(known, f"unknown-{number}") == []
    assert issuer.asked == 2
    issuer.publish(rsa_key.jwk(), rsa_key.jwk(kid="rotated"))
    stopwatch.passes(jwks.PAUSE - 1)
    assert await names(known, "rotated") == []
    assert issuer.asked == 2
    stopwatch.passes(1)
    assert await names(known, "rotated") == ["rotated"]
    assert issuer.asked == 3


async def test_keys_stay_good_while_the_issuer_is_down_but_not_for_ever(
    known: PublicKeys, issuer: Issuer, stopwatch: Stopwatch
) -> None:
    await names(known)
    issuer.status = 500
    for _ in range(23):
        stopwatch.passes(3600)
        assert await names(known) == ["rsa-1"]
    assert issuer.asked == 24
    stopwatch.passes(3601)
    assert await names(known) == []
    issuer.status = 200
    stopwatch.passes(jwks.PAUSE)
    assert await names(known) == ["rsa-1"]


async def test_with_no_keys_at_all_we_ask_more_often(
    known: PublicKeys, issuer: Issuer, stopwatch: Stopwatch
) -> None:
    issuer.status = 503
    assert [await names(known) for _ in range(5)] == [[]] * 5
    assert issuer.asked == 1
    issuer.status = 200
    stopwatch.passes(jwks.PAUSE_WITHOUT_KEYS)
    assert await names(known) == ["rsa-1"]


NONSENSE = {
    "nothing": b"",
    "a page": b"<html>Sign in</html>",
    "null": b"null",
    "a list": b"[]",
    "no keys": b"{}",
    "keys are none": b'{"keys": null}',
    "keys are a text": b'{"keys": "rsa-1"}',
    "no key": b'{"keys": []}',
    "not objects": b'{"keys": [1, "x", null, [], {}]}',
    "not UTF-8": b'{"keys": "\xff"}',
    "nested": b"[" * 100_000,
    "a secret": b'{"keys": [{"kty": "oct", "kid": "rsa-1", "k": "c2VjcmV0", "alg": "HS256"}]}',
    "no numbers": b'{"keys": [{"kty": "RSA", "kid": "rsa-1"}]}',
    "bad numbers": b'{"keys": [{"kty": "RSA", "kid": "rsa-1", "n": "!", "e": 7}]}',
    "off the curve": b'{"keys": [{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}]}',
}


@pytest.mark.parametrize("body", NONSENSE.values(), ids=NONSENSE)
async def test_nonsense_is_no_key_and_takes_none_away(
    known: PublicKeys, issuer: Issuer, stopwatch: Stopwatch, body: bytes
) -> None:
    good, issuer.body = issuer.body, body
    assert await names(known) == []
    issuer.body = good
    stopwatch.passes(jwks.PAUSE)
    assert await names(known) == ["rsa-1"]
    issuer.body = body
    stopwatch.passes(jwks.FRESH)
    assert await names(known) == ["rsa-1"]
    assert issuer.asked == 3


async def test_a_set_that_does_not_end_is_not_read_to_its_end(
    known: PublicKeys, issuer: Issuer
) -> None:
    issuer.body += b" " * (10_000_000)
    assert await names(known) == [], "a good set, but for its size"


async def test_keys_for_something_else_are_left_out(
    known: PublicKeys, issuer: Issuer, rsa_key: Signer
) -> None:
    weak = Signer("RS256", "weak", bits=1024)
    issuer.publish(
        rsa_key.jwk(kid="enc", use="enc"),
        rsa_key.jwk(kid="ps", alg="PS256"),
        rsa_key.jwk(kid="hs", alg="HS256"),
        weak.jwk(),
        {"kty": "RSA", "kid": "broken"},
        rsa_key.jwk(kid="good", use="sig", alg="RS256"),
    )
    assert await names(known, None) == ["good"]


async def test_a_private_key_that_is_published_is_used_as_a_public_one(
    known: PublicKeys, issuer: Issuer, rsa_key: Signer
) -> None:
    issuer.publish(rsa_key.jwk(d="AQAB", p="AQAB"))
    [key] = await known.find("RS256", "rsa-1")
    assert not hasattr(key.material, "private_numbers")


async def test_a_redirect_is_not_followed(known: PublicKeys, issuer: Issuer) -> None:
    with publishing() as elsewhere:
        elsewhere.body = issuer.body
        issuer.status, issuer.headers = 302, {"Location": elsewhere.url}
        assert await names(known) == []
        assert (issuer.asked, elsewhere.asked) == (1, 0)


async def test_an_issuer_that_is_not_there_gives_no_key(stopwatch: Stopwatch) -> None:
    with publishing() as gone:
        url = gone.url
    assert await names(PublicKeys(url, elapsed=stopwatch)) == []


async def test_one_that_never_answers_is_given_up(
    issuer: Issuer, stopwatch: Stopwatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jwks, "FETCH_TIMEOUT", 0.1)
    released = threading.Event()
    issuer.before = released.wait
    try:
        assert await names(PublicKeys(issuer.url, elapsed=stopwatch)) == []
    finally:
        released.set()


async def test_a_file_is_as_good_as_a_server(
    tmp_path: Path, issuer: Issuer, stopwatch: Stopwatch
) -> None:
    (tmp_path / "keys.json").write_bytes(issuer.body)
    known = PublicKeys((tmp_path / "keys.json").as_uri(), elapsed=stopwatch)
    assert await names(known) == ["rsa-1"]
    assert await names(PublicKeys((tmp_path / "none").as_uri(), elapsed=stopwatch)) == []
