"""Laws of the signatures of errors, for any text whatever."""

from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core.runs.error_signatures import LONGEST_SIGNATURE, build_signature

PIECES = st.sampled_from(
    [
        *("'", '"', "`", "/", "\\", "<", ">", ":", "-", ".", ",", " ", "\n", "\t", "x", "\x1f"),
        *("7", "٣", "0x1f", "C:\\a", "/tmp/b", "https://c/d", "can't", "<n>", "<text>", "e-5"),
        *("01890000-0000-7000-8000-000000000000", "deadbeef", "failed", "a_1", "\u2028"),
    ]
)
TEXTS = st.one_of(st.text(max_size=300), st.lists(PIECES, max_size=60).map("".join))
NUMBERS = st.integers(min_value=0, max_value=10**12)


@given(TEXTS)
def test_a_signature_is_its_own_signature(error: str) -> None:
    assert build_signature(build_signature(error)) == build_signature(error)


@given(TEXTS)
def test_a_signature_is_one_short_line_without_a_digit(error: str) -> None:
    signature = build_signature(error)
    assert 1 <= len(signature) <= LONGEST_SIGNATURE
    assert signature.splitlines() == [signature]
    assert not any(each.isdecimal() for each in signature)


@given(st.text(alphabet="abc ,:-.", max_size=40), NUMBERS, NUMBERS)
def test_numbers_do_not_count(words: str, one: int, other: int) -> None:
    assert build_signature(f"{words} {one} {words}") == build_signature(f"{words} {other} {words}")


@given(st.text(alphabet="abc/. ", max_size=40), st.text(alphabet="xyz /.,:-0189", max_size=40))
def test_what_is_quoted_does_not_count(words: str, quoted: str) -> None:
    assert build_signature(f"failed '{quoted}' {words}") == build_signature(f"failed 'q' {words}")
