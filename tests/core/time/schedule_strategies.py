"""How to draw schedules of every kind; a new kind adds its line to STRATEGIES."""

from datetime import UTC, datetime, time, timedelta

from hypothesis import strategies as st

from evenbeat.core.time.schedules import Dst, Schedule
from evenbeat.core.time.schedules.cron import ALIASES, Cron
from evenbeat.core.time.schedules.daily import Daily
from evenbeat.core.time.schedules.every import Every
from evenbeat.core.time.schedules.hourly import Hourly
from evenbeat.core.time.schedules.now import Now
from evenbeat.core.time.schedules.once import Once
from evenbeat.core.time.schedules.weekly import Weekly

ZONES = st.sampled_from(
    [
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "America/Sao_Paulo",
        "Australia/Lord_Howe",
        "Africa/Casablanca",
        "Asia/Kolkata",
        "Pacific/Apia",
    ]
)
DSTS = st.none() | st.builds(
    Dst, gap=st.sampled_from(["after", "skip"]), overlap=st.sampled_from(["once", "both"])
)
FIRST = datetime(2000, 1, 1, tzinfo=UTC)
INSTANTS = st.timedeltas(timedelta(0), timedelta(days=199 * 365)).map(lambda age: FIRST + age)
TIMES = st.times().map(lambda at: at.replace(microsecond=0)) | st.builds(
    time, hour=st.integers(0, 23), minute=st.integers(0, 59)
)
SECONDS = st.integers(0, 59)


def fields(lowest: int, highest: int) -> st.SearchStrategy[str]:
    """One field of a cron, without the letters that only some fields know."""
    number = st.integers(lowest, highest)
    step = st.integers(1, highest)
    bounds = st.tuples(number, number).map(sorted)
    term = st.one_of(
        number.map(str),
        step.map("*/{}".format),
        bounds.map(lambda pair: f"{pair[0]}-{pair[1]}"),
        st.tuples(bounds, step).map(lambda drawn: f"{drawn[0][0]}-{drawn[0][1]}/{drawn[1]}"),
    )
    return st.just("*") | term | st.lists(term, min_size=2, max_size=3).map(",".join)


DAYS = st.just("*") | fields(1, 28) | st.sampled_from(["L", "29", "30", "31", "1,L"])
WEEKDAYS = st.just("*") | fields(0, 7) | st.sampled_from(["MON-FRI", "SUN", "5L", "MON#2", "SAT#5"])
MONTHS = st.just("*") | fields(1, 12) | st.sampled_from(["JAN,DEC", "MAR-OCT"])
FIVE = (fields(0, 59), fields(0, 23), DAYS, MONTHS, WEEKDAYS)


def is_possible(expression: str) -> bool:
    """Leave out days that need a certain month, or weekdays that need certain days."""
    *_, day, month, weekday = expression.split()
    if day in ("30", "31") and weekday.startswith("*"):
        return month == "*"
    return not (day.startswith("*/") and ("#" in weekday or "L" in weekday))


EXPRESSIONS = (st.tuples(*FIVE) | st.tuples(fields(0, 59), *FIVE)).map(" ".join).filter(is_possible)
SPREADS = st.sampled_from(["H * * * *", "H/15 * * * *", "H H(0-7) * * *", "0 H H * *", "H 8 * * H"])
SEEDS = st.none() | st.text(min_size=1, max_size=30)
CRONS = st.builds(
    Cron, EXPRESSIONS | st.sampled_from(sorted(ALIASES)), zone=ZONES, dst=DSTS
) | st.builds(
    lambda cron, seed: cron if seed is None else cron.seeded(seed),
    st.builds(Cron, SPREADS, zone=ZONES, dst=DSTS),
    SEEDS,
)
INTERVALS = st.integers(1, 315_360_000).map(lambda seconds: timedelta(seconds=seconds))

STRATEGIES: dict[str, st.SearchStrategy[Schedule]] = {
    "every": st.builds(
        Every, INTERVALS, st.none() | st.timedeltas(timedelta(0), timedelta(days=3650))
    ),
    "hourly": st.builds(Hourly, SECONDS, SECONDS, zone=ZONES, dst=DSTS),
    "daily": st.builds(Daily, TIMES, zone=ZONES, dst=DSTS),
    "weekly": st.builds(
        Weekly,
        st.sampled_from(["mon", "tue", "wed", "thu", "fri", "sat", "sun"]),
        TIMES,
        zone=ZONES,
        dst=DSTS,
    ),
    "cron": CRONS,
    "once": st.builds(Once, INSTANTS),
    "now": st.just(Now()),
}
