"""Hostile values, field by field: each must be refused by the name of its field."""

import json

HUGE = "9" * 5_000


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


TEXTS = ["", "\x00", "a\x00b", "\ud800", "x\udfff", 7, 1.5, True, [], {}, ["echo"]]
WHOLE_NUMBERS = [
    *(-1, 2**31, 2**63, 10**30, -(10**30), 1.5, 1e308),
    *("1", "", True, False, [], {}),
]
PAYLOADS = [
    "\x00",
    {"a": "\x00"},
    {"\x00": 1},
    {"a": [{"b": "\ud800"}]},
    {"\ud800": 1},
    2**63,
    -(2**64),
    {"a": 10**30},
    float("nan"),
    [float("inf")],
    {"a": {"b": float("-inf")}},
    json.loads(nested(100)),
]
SCHEDULES = [
    *(
        "",
        7,
        1.5,
        True,
        False,
        [],
        ["every 30m"],
        {},
        "\x00",
        "\ud800",
        "every",
        "every 0s",
        "every -5m",
    ),
    *("every 5 parsecs", "every 11y", "every 4000d", "every 1.5s", "every NaN", "every 1e9s"),
    *("every 99999999999999999999s", "every ３０m", "sometimes", "x" * 100_000, " " * 300),
    *("* * * *", "* * * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *"),
    *("*/0 * * * *", "0 0 31 2 *", "0 0 30 2 *", "R R R R R"),
    *("０ ０ * * *", "0 0 * * MOON", "@reboot", "@fortnightly", "0 0 * * * Mars/Olympus"),
    *("0 0 * * * ../../etc/passwd", "daily 25:00", "daily 06:00 America", "weekly never 02:00"),
    *(
        "hourly :60",
        "daily 06:00 " + "x" * 5_000,
        "once",
        "once tomorrow",
        "once 2026-02-30T00:00Z",
    ),
    *("once 1999-12-31T23:59:59Z", "once 9999-12-31T23:59:59-14:00", "once infinity"),
    *("once 2200-01-02T00:00:00Z", "once 2026-13-01T00:00:00Z", "once -0001-01-01T00:00:00Z"),
    *("every 30m phase=banana", "every 30m zone=UTC", "every 30m frequency=2", "every 5m every 6m"),
    *({"every": None}, {"every": []}, {"every": True}, {"every": -1}, {"every": 0}),
    *({"every": 1e400}, {"every": 10**30}, {"every": "30m", "cron": "* * * * *"}),
    *({"every": "30m", "zone": "UTC"}, {"every": "30m", "colour": "red"}, {"yearly": 1}),
    *({"cron": "* * * * *", "zone": "../../etc/passwd"}, {"cron": "* * * * *", "zone": "America"}),
    *({"cron": "* * * * *", "zone": "\x00"}, {"cron": "* * * * *", "zone": 7}, {"cron": 7}),
    *({"cron": "* * * * *", "dst": "maybe"}, {"cron": "* * * * *", "dst": {"gap": []}}),
    *({"cron": "0 0 31 2 *"}, {"daily": "06:00", "zone": "Nowhere"}, {"daily": {}}),
    *({"weekly": "sun"}, {"hourly": 60}, {"hourly": "x"}, {"hourly": True}, {"once": 7}),
    *({"once": "2026-02-30T00:00:00Z"}, {"once": "9999-12-31T23:59:59-14:00"}, {"now": False}),
    *({"once": "2020-01-01T00:00:00", "zone": "Nowhere"}, {"\ud800": 1}, {"": 1}, {"\x00": 1}),
    *({"schedule_type": kind} for kind in ("", "yearly", 7, None, [], "daily", "interval", "\x00")),
    *(
        {"schedule_type": "interval", "interval_seconds": n}
        for n in (0, -1, 1.5, "5", True, 10**30)
    ),
    *({"schedule_type": "hourly", "schedule_minute": n} for n in (60, -1, "x", True, None)),
    *({"schedule_type": "daily", "schedule_hour": n} for n in (24, -1, "6", 10**30, True, {})),
    *(
        {"schedule_type": "weekly", "schedule_hour": 2, **each}
        for each in (
            {},
            {"schedule_day_of_week": 7},
            {"schedule_day_of_week": "sun"},
            {"colour": 1},
            {"schedule_day_of_week": 0, "interval_seconds": 60},
            {"schedule_day_of_week": 0, "zone": "Nowhere"},
        )
    ),
    *({"every": {"every": "30m"}}, {"cron": ["*", "*"]}, {"every": "30m", "phase": -1}),
]
LABELS = [
    *(7, True, "red", [], ["red"], {"": "x"}, {"x": ""}, {"a": 1}, {"a": None}, {"a": {}}),
    *({"\x00": "x"}, {"x": "\x00"}, {"\ud800": "x"}, {"x": "\ud800"}, {"x" * 101: "x"}),
    *({"x": "x" * 201}, {str(number): "x" for number in range(51)}),
]
TIMEOUTS = [
    *("", "0s", 0, -1, 10**30, 1e400, True, [], {}, "soon", "5 parsecs", "31d", "\x00"),
    *("\ud800", "９s", "9" * 5_000, float("nan"), 0.0009),
]
WHOLE_TIMEOUTS = [*TIMEOUTS, 1.5, "1.5s"]

INSTANTS = [
    *("", 7, True, [], {}, "\x00", "\ud800", "infinity", "-infinity", "now", "tomorrow", "BC"),
    *("1999-12-31T23:59:59Z", "2200-01-02T00:00:00Z", "294276-01-01T00:00:00Z", "0000-00-00"),
    *("9999-12-31T23:59:59-14:00", "2026-02-30T00:00:00Z", "2026-01-01T25:00:00Z", "x" * 100_000),
    "２０２６-01-01T00:00:00Z",
]
WINDOWS = [
    *("", 7, True, [], {}, "\x00", "\ud800", "x", "25:00-26:00", "mon-", "x" * 100_000),
    *({"days": 7}, {"colour": 1}, {"\ud800": 1}, "09:00-17:00 ../../etc/passwd"),
]
WORDS = [
    *(7, True, "a", {}, [7], [None], [[]], [""], ["\x00"], ["\ud800"], ["x" * 101]),
    [str(number) for number in range(51)],
]
CHOICES = ["", "LATEST", "\x00", "\ud800", 7, True, [], {}, "x" * 100_000]
LIMITS = [
    *(7, True, "1", [], {"colour": 1}, {"max_running": 0}, {"max_running": 10**30}),
    *({"max_running": "1"}, {"job_limit": 0}, {"job_limit": 40_000}, {"job_limit": 1.5}),
    *({"rate": 7}, {"rate": ""}, {"rate": "x"}, {"rate": "0/m"}, {"rate": "1/0s"}),
    *({"rate": "1/\x00"}, {"rate": "\ud800/m"}, {"rate": "９/m"}, {"rate": "1/" + HUGE}),
]
BACKOFFS = [
    *(7, True, "x", [], {"kind": "x"}, {"kind": 7}, {"kind": []}, {"base": -1}, {"base": "1"}),
    *({"base": 1e400}, {"base": float("nan")}, {"base": 10**30}, {"cap": True}, {"jitter": 2}),
    *({"wait": 1}, {"\x00": 1}, {"\ud800": 1}, {"kind": "fixed", "wait": None}),
]
RULES = [
    *(7, True, "x", {}, [7], [[]], [{}], [{"error": ""}], [{"error": 7}], [{"error": "\x00"}]),
    *([{"error": "\ud800"}], [{"error": "x", "max_attempts": 0}], [{"error": "x", "colour": 1}]),
    *([{"error": "x", "max_attempts": 10**30}], [{"error": "x", "backoff": {"base": -1}}]),
    *([{"error": "x" * 100_000}], [{"error": "x"}] * 101),
]
OBJECTS = [
    *(7, True, "x", [], {"\x00": 1}, {"a": "\x00"}, {"a": {"b": "\ud800"}}, {"a": 2**64}),
    *({"a": float("nan")}, {"a": json.loads(nested(100))}),
]
URLS = [
    *("example.com", "ftp://example.com/", "http://", "http:///x", "http://[::1", "javascript:1"),
    "https://example.com/" + "x" * 2_000,
]
CRONS = [
    *(schedule for schedule in SCHEDULES if isinstance(schedule, str) and " * " in schedule),
    *("0 0 * * *\x00", "\ud800", 7, True, [], {}, "*/999999999999 * * * *", "* " * 5_000),
]

# Every field that can be written: one that is new must be here before a test passes.
CORPUS: dict[str, list[object]] = {
    "name": [*TEXTS, *(" ", "\t\n", "x" * 201, "x" * 100_000)],
    "kind": [*TEXTS, "x" * 101, "x" * 100_000, "nonesuch", "ECHO", " echo", "echo "],
    "payload": PAYLOADS,
    "schedule": SCHEDULES,
    "starts_at": INSTANTS,
    "ends_at": INSTANTS,
    "max_runs": [*WHOLE_NUMBERS, 0],
    "window": WINDOWS,
    "within": WHOLE_TIMEOUTS,
    "prefers": WINDOWS,
    "balance": [0, 1, "", "true", "\x00", [], {}, 1.5, None],
    "timeout": TIMEOUTS,
    "priority": [*WHOLE_NUMBERS, 101, -(2**31) - 1, None],
    "group": [*TEXTS, "x" * 201, "{", "}", "{payload.nonesuch}", "{}", "{payload}"],
    "limits": LIMITS,
    "labels": [*LABELS, None],
    "tags": [*WORDS, None],
    "runs_on": [*WORDS, None],
    "max_attempts": [*WHOLE_NUMBERS, 0, 1_001, 10**4],
    "backoff": BACKOFFS,
    "retry_rules": [*RULES, None],
    "catch_up": [*CHOICES, None],
    "catch_up_cap": [*WHOLE_NUMBERS, 0, 10_001, None],
    "start_deadline": [value for value in TIMEOUTS if value != "31d"],
    "after_failure": [*CHOICES, None],
    "pause_after_failures": [*WHOLE_NUMBERS, 0, 1_000_001],
    "dedupe_key": [*TEXTS, "x" * 201],
    "type": [*TEXTS, "x" * 101],
    "url": [*TEXTS, *URLS],
    "source_id": [*(text for text in TEXTS if text != ""), "x" * 2_001],
    "source_name": [*(text for text in TEXTS if text != ""), "x" * 2_001],
    "metadata": OBJECTS,
    "interval_minutes": [*WHOLE_NUMBERS, 0],
    "interval_type": [*CHOICES, "seconds", "minute"],
    "schedule_time": CRONS,
    "schedule_enabled": [0, 1, "", "true", "\x00", [], {}, 1.5],
    "max_retries": [*WHOLE_NUMBERS, 100],
    "retry_backoff_seconds": [*WHOLE_NUMBERS, 86_401],
}
# What else a job needs for the field to be the only one at fault.
CRAWL = {"url": "https://example.com/"}
AROUND: dict[str, dict[str, object]] = {
    "within": {"kind": "echo", "schedule": "daily 06:00"},
    "prefers": {"kind": "echo", "schedule": "every 1h"},
    "limits": {"kind": "echo", "group": "limited"},
    "interval_type": {"kind": "echo", "interval_minutes": 5},
    "type": {},
    "url": {},
    "source_id": CRAWL,
    "source_name": CRAWL,
    "metadata": CRAWL,
}


def job_with(field: str, value: object) -> dict[str, object]:
    return AROUND.get(field, {"kind": "echo"}) | {field: value}
