"""Schedules read from texts and objects, and what is refused."""

from datetime import UTC, datetime, time, timedelta

import pytest

from evenbeat.core.errors import InvalidInput
from evenbeat.core.time.schedules import Dst, Schedule, parse_schedule, parse_schedule_object
from evenbeat.core.time.schedules.cron import Cron
from evenbeat.core.time.schedules.daily import Daily
from evenbeat.core.time.schedules.every import Every
from evenbeat.core.time.schedules.hourly import Hourly
from evenbeat.core.time.schedules.now import Now
from evenbeat.core.time.schedules.once import Once
from evenbeat.core.time.schedules.weekly import Weekly

HALF_HOUR = Every(timedelta(minutes=30))
EIGHT = datetime(2026, 12, 1, 8, tzinfo=UTC)
BERLIN = "Europe/Berlin"


@pytest.mark.parametrize(
    ("text", "schedule"),
    [
        ("every 30m", HALF_HOUR),
        ("Every 30 minutes", HALF_HOUR),
        ("PT30M", HALF_HOUR),
        ("30m", HALF_HOUR),
        ("1800 seconds", HALF_HOUR),
        ("every 1 hour 30 minutes", Every(timedelta(minutes=90))),
        ("P1D", Every(timedelta(days=1))),
        ("every 1h phase=120s", Every(timedelta(hours=1), timedelta(minutes=2))),
        ("hourly", Hourly()),
        ("hourly :15", Hourly(15)),
        ("hourly Asia/Kolkata", Hourly(zone="Asia/Kolkata")),
        ("hourly :15:30 Asia/Kolkata", Hourly(15, 30, zone="Asia/Kolkata")),
        ("daily 06:00", Daily(time(6))),
        ("daily 06:00:30 Europe/Berlin", Daily(time(6, 0, 30), zone=BERLIN)),
        ("daily 06:00 zone=Europe/Berlin", Daily(time(6), zone=BERLIN)),
        ("sun 02:00", Weekly("sun", time(2))),
        ("weekly sun 02:00", Weekly("sun", time(2))),
        ("Sunday 02:00 Europe/Berlin", Weekly("sun", time(2), zone=BERLIN)),
        ("0 8 * * MON-FRI", Cron("0 8 * * MON-FRI")),
        ("0 8 *\t* MON-FRI", Cron("0 8 * * MON-FRI")),
        ("0 8 * * MON-FRI Europe/Berlin", Cron("0 8 * * MON-FRI", zone=BERLIN)),
        ("CRON_TZ=Europe/Berlin 0 8 * * *", Cron("0 8 * * *", zone=BERLIN)),
        ("0 0 8 * * MON-FRI/2", Cron("0 0 8 * * MON-FRI/2")),
        ("0 0 8 * * H", Cron("0 0 8 * * H")),
        ("0 0 8 * * * UTC", Cron("0 0 8 * * *")),
        ("0 8 * * * dst=skip/both", Cron("0 8 * * *", dst=Dst("skip", "both"))),
        ("@daily", Cron("@daily")),
        ("@Weekly Europe/Berlin", Cron("@Weekly", zone=BERLIN)),
        ("H 8 * * * seed=reports", Cron("H 8 * * *", "reports")),
        ("once 2026-12-01T08:00:00Z", Once(EIGHT)),
        ("once 2026-12-01T09:00 Europe/Berlin", Once(EIGHT)),
        ("now", Now()),
    ],
)
def test_a_text_is_read(text: str, schedule: Schedule):
    assert parse_schedule(text) == schedule
    assert parse_schedule(schedule.to_text()) == schedule


@pytest.mark.parametrize(
    ("value", "schedule"),
    [
        ({"every": "30m"}, HALF_HOUR),
        ({"every": 1800}, HALF_HOUR),
        ({"every": 1800, "phase": 120}, HALF_HOUR.with_phase(timedelta(minutes=2))),
        ({"hourly": 15}, Hourly(15)),
        ({"hourly": ":15"}, Hourly(15)),
        ({"daily": "06:00", "zone": BERLIN}, Daily(time(6), zone=BERLIN)),
        ({"daily": "06:00", "zone": None}, Daily(time(6))),
        ({"weekly": "sun 02:00"}, Weekly("sun", time(2))),
        ({"cron": "@daily"}, Cron("@daily")),
        ({"cron": "CRON_TZ=Europe/Berlin 0 8 * * *"}, Cron("0 8 * * *", zone=BERLIN)),
        (
            {"cron": "0 8 * * *", "zone": BERLIN, "dst": {"gap": "skip"}},
            Cron("0 8 * * *", zone=BERLIN, dst=Dst("skip", "once")),
        ),
        ({"once": "2026-12-01T09:00:00+01:00"}, Once(EIGHT)),
        ({"once": "2026-12-01T09:00:00", "zone": BERLIN}, Once(EIGHT)),
        ({"now": True}, Now()),
        ("now", Now()),
        ("every 30m", HALF_HOUR),
    ],
)
def test_an_object_is_read(value: object, schedule: Schedule):
    assert parse_schedule_object(value) == schedule
    assert parse_schedule_object(schedule.to_object()) == schedule


FULL_WIDTH = "\N{FULLWIDTH DIGIT ZERO}"
LONG = "*" * 5000

# Each of these hangs, crashes or is taken for something in one tool or another.
BAD_TEXTS = {
    "schedule": [
        *("", "   ", "tomorrow", "foo bar", LONG, "\0", "every 30m\0", f"{FULL_WIDTH} 8 * * *"),
        *("0 8 * *", "daily 06:00 colour=red", "\ud800", "every 30m\nnow"),
    ],
    "schedule.every": [
        *("every", "every 30", "every 0s", "every 500ms", "every 11y", "every 3651d", "5"),
        *("every " + "9" * 200 + "s", "P1M", "every fortnight", "every -5m"),
    ],
    "schedule.phase": ["every 5m phase=x", "every 5m phase=1s phase=2s", "daily 06:00 phase=1s"],
    "schedule.hourly": ["hourly :60", "hourly 15", "hourly :1:2:3", "hourly :15 UTC UTC"],
    "schedule.daily": ["daily", "daily 24:00", "daily 6", "daily 06:60", "daily 06:00 UTC extra"],
    "schedule.weekly": ["weekly 02:00", "weekly sun", "sun 25:00", "weekly someday 02:00"],
    "schedule.cron": [
        *("0 0 31 2 *", "0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 */31 * MON#5", "60 * * * *"),
        *(
            "*/0 * * * *",
            "*/999999999999 * * * *",
            "* * * * * * *",
            "1-100000000 * * * *",
            "* 5-2 * * *",
            "* * * * 8",
        ),
        *(
            "@reboot",
            "@never",
            "R R R R R",
            "*/x * * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * MON#6",
        ),
        *(
            "0 0 * * FRI-SUN",
            "@daily 5",
            "0 0 15W * *",
            "cron",
            "H(5-99) * * * *",
            "H(9-5) * * * *",
        ),
        *("H/0 * * * *", "H( * * * *", "Hx * * * *", "0 0 H(1-31) * *", "H-5 * * * *"),
        "1 2 3 4 5 6 7 8 9 10 11",
        "9" * 200 + " * * * *",
        "*/999999999999999999999x * * * *",
    ],
    "schedule.seed": [
        "0 8 * * * seed=reports",
        "H 8 * * * seed=",
        "H 8 * * * seed=a/b",
        "now seed=a",
    ],
    "schedule.once": [
        *(
            "once",
            "once tomorrow",
            "once 2026-12-01",
            "once 2026-12-01T08:00",
            "once 1999-01-01T00:00Z",
        ),
        *("once 2300-01-01T00:00Z", "once 9999-12-31T23:59:59-14:00", "once 2026-02-30T00:00Z"),
        *("once 2026-12-01T08:00Z UTC extra", "once 0001-01-01T00:00 UTC"),
    ],
    "schedule.now": ["now please"],
    "schedule.zone": [
        *("daily 06:00 ../../etc/passwd", "daily 06:00 America", "daily 06:00 Europe/Nowhere"),
        *("daily 06:00 zone=", "daily 06:00 /etc/passwd", "daily 06:00 posix/Europe/Berlin"),
        *(
            "0 8 * * * Mars/Base",
            "CRON_TZ=x 0 8 * * *",
            "TZ=UTC CRON_TZ=UTC 0 8 * * *",
            "now zone=UTC",
        ),
        *("daily 06:00 right/UTC", "daily 06:00 localtime", "once 2026-12-01T08:00Z Europe/Berlin"),
        "daily 06:00 " + "A" * 200,
    ],
    "schedule.dst": ["daily 06:00 dst=skip", "every 5m dst=skip/both"],
    "schedule.dst.gap": ["daily 06:00 dst=never/once"],
    "schedule.dst.overlap": ["daily 06:00 dst=skip/twice"],
}


@pytest.mark.parametrize(
    ("field", "text"), [(field, text) for field, texts in BAD_TEXTS.items() for text in texts]
)
def test_a_bad_text_is_refused_by_name(field: str, text: str):
    with pytest.raises(InvalidInput) as refusal:
        parse_schedule(text)
    assert refusal.value.errors[0].field == field


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("schedule", None),
        ("schedule", 5),
        ("schedule", []),
        ("schedule", {}),
        ("schedule", {"zone": "UTC"}),
        ("schedule", {"every": "5m", "cron": "* * * * *"}),
        ("schedule.colour", {"every": "5m", "colour": "red"}),
        ("schedule.every", {"every": True}),
        ("schedule.every", {"every": 0}),
        ("schedule.every", {"every": 1.5}),
        ("schedule.every", {"every": 10**400}),
        ("schedule.every", {"every": None}),
        ("schedule.phase", {"every": "5m", "phase": -1}),
        ("schedule.phase", {"every": "5m", "phase": True}),
        ("schedule.zone", {"every": "5m", "zone": "UTC"}),
        ("schedule.hourly", {"hourly": True}),
        ("schedule.hourly", {"hourly": 15.0}),
        ("schedule.hourly", {"hourly": 60}),
        ("schedule.daily", {"daily": 6}),
        ("schedule.daily", {"daily": f"{FULL_WIDTH}6:00"}),
        ("schedule.weekly", {"weekly": ["sun", "02:00"]}),
        ("schedule.weekly", {"weekly": "sun 02:00 UTC"}),
        ("schedule.cron", {"cron": 5}),
        ("schedule.cron", {"cron": ""}),
        ("schedule.cron", {"cron": LONG}),
        ("schedule.cron", {"cron": "CRON_TZ=UTC 0 8 * * *", "zone": "UTC"}),
        ("schedule.zone", {"daily": "06:00", "zone": "A" * 5000}),
        ("schedule.zone", {"daily": "06:00", "zone": "UTC\0"}),
        ("schedule.zone", {"daily": "06:00", "zone": 5}),
        ("schedule.dst", {"daily": "06:00", "dst": {"leap": "skip"}}),
        ("schedule.dst", {"daily": "06:00", "dst": 5}),
        ("schedule.dst.gap", {"daily": "06:00", "dst": {"gap": []}}),
        ("schedule.seed", {"cron": "H * * * *", "seed": 5}),
        ("schedule.once", {"once": 0}),
        ("schedule.now", {"now": False}),
        ("schedule.now", {"now": 1}),
    ],
)
def test_a_bad_object_is_refused_by_name(field: str, value: object):
    with pytest.raises(InvalidInput) as refusal:
        parse_schedule_object(value)
    assert refusal.value.errors[0].field == field


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("every 30m", "every 30 minutes"),
        ("every 1d", "every day"),
        ("hourly :05", "hourly at :05 (UTC)"),
        ("daily 06:00 Europe/Berlin", "daily at 06:00 (Europe/Berlin)"),
        ("sun 02:00", "weekly on Sunday at 02:00 (UTC)"),
        ("0 8 * * MON-FRI", "at 08:00 on Monday through Friday (UTC)"),
        ("H 8 * * *", "by cron H 8 * * *, H chosen by the job's name (UTC)"),
        ("once 2026-12-01T08:00:00Z", "once at 2026-12-01T08:00:00Z"),
        ("now", "now"),
    ],
)
def test_a_schedule_is_described_in_words(text: str, words: str):
    assert parse_schedule(text).describe() == words
