"""Signatures of errors as people meet them."""

import pytest

from evenbeat.core.runs.error_signatures import NO_MESSAGE, build_signature

SAME = {
    "numbers": ["took 12.5 s, and 3 are allowed", "took 7 s, and 10 are allowed"],
    "ids": [
        "no job 01890000-0000-7000-8000-000000000000",
        "no job 0189ffff-1234-7abc-8def-00000000000f",
    ],
    "hashes": ["commit deadbeef01 is gone", "commit 0f3a99e is gone"],
    "addresses": ["refused by 10.1.2.3:5432", "refused by 192.168.0.17:6432"],
    "quoted": ["KeyError: 'user_a'", "KeyError: 'somebody else'"],
    "paths": ["cannot read /var/tmp/a.txt", "cannot read /home/ann/b/c.csv"],
    "urls": ["GET https://example.com/a?x=1 failed", "GET http://other.test/b failed"],
    "times": ["late since 2030-01-01T12:00:00Z", "late since 2031-12-31T23:59:59.5+02:00"],
    "what follows": ["out of order", "out of order\n  at line 7\n  at line 8"],
    "spaces": ["out  of\torder", " out of order "],
}
DIFFERENT = [
    ("connection refused", "connection timeout"),
    ("KeyError: 'a'", "ValueError: 'a'"),
    ("can't open 'x'", "can't close 'x'"),
    ("read or write failed", "read failed"),
]


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME)
def test_what_differs_from_run_to_run_does_not_count(one: str, other: str) -> None:
    assert build_signature(one) == build_signature(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_was_said_counts(one: str, other: str) -> None:
    assert build_signature(one) != build_signature(other)


def test_the_rest_of_the_words_stays() -> None:
    told = "ConnectionError: can't reach 'db-1' at 10.0.0.7:5432 after 3 tries"
    expected = "ConnectionError: can't reach <text> at <n> after <n> tries"
    assert build_signature(told) == expected


def test_without_an_error_its_class_says_what_it_was() -> None:
    assert build_signature(None, "lost") == build_signature(" \n", "lost") == "lost"
    assert build_signature(None) == NO_MESSAGE
