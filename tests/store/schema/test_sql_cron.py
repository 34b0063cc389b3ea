"""The grammar check of the SQL face takes the cron expressions that Python takes, and no others."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import asyncpg
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from evenbeat.core.errors import InvalidInput
from evenbeat.core.time.schedules.base.zones import check_zone, known_zones
from evenbeat.core.time.schedules.cron import ALIASES, Cron
from tests.core.time.schedule_strategies import FIVE, fields

# What cron fields are made of, whole and in pieces, and what only looks like it.
PIECES = st.sampled_from(
    [
        "*",
        "/",
        "-",
        ",",
        "#",
        "L",
        "LW",
        "W",
        "H",
        "H(0-9)",
        "H/5",
        "0",
        "1",
        "2",
        "5",
        "05",
        "007",
        "7",
        "8",
        "12",
        "13",
        "23",
        "24",
        "28",
        "29",
        "30",
        "31",
        "32",
        "59",
        "60",
        "99",
        "100",
        "0000",
        "999",
        "1000",
        "00010",
        "2026",
        "JAN",
        "feb",
        "Dec",
        "SUN",
        "mon",
        "Sat",
        "MONDAY",
        "?",
        "(",
        ")",
        "@",
        "!",
        "é",
        "٣",
        "½",
    ]
)
WORDS = st.lists(PIECES, min_size=1, max_size=5).map("".join)
TERMS = st.one_of(
    WORDS,
    st.tuples(PIECES, PIECES).map("-".join),
    st.tuples(PIECES, PIECES, PIECES).map(lambda drawn: "{}-{}/{}".format(*drawn)),
    st.tuples(PIECES, PIECES).map("/".join),
    st.tuples(PIECES, PIECES).map("#".join),
    PIECES.map(lambda piece: f"{piece}L"),
    PIECES.map(lambda piece: f"{piece}-{piece}/2"),
)
ODD = TERMS | st.lists(TERMS, min_size=2, max_size=3).map(",".join)
SECONDS, MINUTES = fields(0, 59), FIVE[0]
# Days that must meet certain weekdays: most of the impossible ones are among these.
DAYS = st.sampled_from(
    [
        "*",
        "*/2",
        "*/31",
        "*,5",
        "1",
        "15",
        "29",
        "30",
        "31",
        "30,31",
        "L",
        "LW",
        "L-L/5",
        "31/2",
        "1-7",
        "29-31",
        "LW,1",
    ]
)
WEEKDAYS = st.sampled_from(
    [
        "*",
        "*/2",
        "*,1",
        "MON",
        "SUN#5",
        "MON#1",
        "1#5,2#5",
        "7L",
        "0L",
        "5L",
        "SAT",
        "SUN-SAT",
        "0-7/7",
        "7",
        "6#2",
        "5L-5L/3",
    ]
)
MONTHS = st.sampled_from(["*", "2", "FEB", "2,4", "4,6,9,11", "JAN-MAR", "*/12", "12"])
USUAL = (*FIVE[:2], DAYS | FIVE[2], MONTHS | FIVE[3], WEEKDAYS | FIVE[4])


@st.composite
def lines(draw: st.DrawFn) -> str:
    """Five or six fields, most of them sound, in words apart by whatever stands between."""
    drawn = [draw(field) for field in USUAL]
    if draw(st.integers(0, 3)) == 0:
        drawn.insert(0, draw(SECONDS))
    for _ in range(draw(st.integers(0, 2))):
        drawn[draw(st.integers(0, len(drawn) - 1))] = draw(ODD)
    between = draw(st.sampled_from([" ", " ", " ", "  ", "\t", "\u00a0", "\n"]))
    return between.join(drawn)


EXPRESSIONS = st.one_of(
    lines(),
    st.tuples(st.just("0"), st.just("0"), DAYS, MONTHS, WEEKDAYS).map(" ".join),
    st.lists(ODD, min_size=4, max_size=7).map(" ".join),
    st.sampled_from([*ALIASES, "@DAILY", "@reboot", "@", "@daily 5", "", " ", " @daily ", "H"]),
    st.text(max_size=12),
).filter(lambda text: "\0" not in text)


def is_python_willing(expression: str) -> bool:
    try:
        return not Cron(expression).is_spread
    except InvalidInput:
        return False


Ask = Callable[[str, list[str]], list[Any]]


@pytest.fixture(scope="module")
def ask(database_url: str) -> Iterator[Ask]:
    """Asks the database, on one connection for all examples."""
    loop = asyncio.new_event_loop()
    connection: Any = loop.run_until_complete(asyncpg.connect(database_url))
    yield lambda query, argument: loop.run_until_complete(connection.fetch(query, argument))
    loop.run_until_complete(connection.close())
    loop.close()


@settings(max_examples=25, phases=(Phase.explicit, Phase.generate))
@given(st.lists(EXPRESSIONS, min_size=80, max_size=80))
def test_sql_and_python_take_the_same_cron_expressions(ask: Ask, expressions: list[str]) -> None:
    rows = ask(
        "select each, evenbeat.cron_fault(each) as fault from unnest($1::text[]) as each",
        expressions,
    )
    disagreed = [
        (row["each"], row["fault"])
        for row in rows
        if (row["fault"] is None) != is_python_willing(row["each"])
    ]
    assert disagreed == []


def test_sql_and_python_take_the_same_time_zones(ask: Ask) -> None:
    """Those of PostgreSQL, which also knows posix/… and reads any case, and those of Python."""
    query = "select name from pg_timezone_names where name <> all ($1::text[])"
    names = [row["name"] for row in ask(query, [])]
    asked = sorted(
        {*names, *known_zones(), "utc", "EST+5", "Mars/Olympus", "", "localtime", "../UTC"}
    )
    rows = ask(
        "select each, exists (select from evenbeat.zone where name = each) as is_known"
        " from unnest($1::text[]) as each",
        asked,
    )
    assert len(known_zones()) > 400
    assert [row["each"] for row in rows if row["is_known"] != is_zone(row["each"])] == []


def is_zone(name: str) -> bool:
    try:
        check_zone(name)
    except InvalidInput:
        return False
    return True
