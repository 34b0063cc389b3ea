"""Crontabs as they are found on machines: read by cron's own rules, with nothing left out.

What cron does with a line is what counts, and where its manuals are silent that is Debian's cron:
settings hold for the lines below them, `%` ends a command and begins its standard input, and a line
is never continued on the next one.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from evenbeat.core.errors import InvalidInput

COLUMNS = 5
ROOT = "root"
DEFAULT_SHELL = "/bin/sh"
# A name or a number, a range of two, perhaps a step: all that cron itself knows.
_TERM = r"(?:\*|\d{1,2}|[a-z]{3})(?:-(?:\d{1,2}|[a-z]{3}))?(?:/\d{1,3})?"
_FIELD = re.compile(rf"{_TERM}(?:,{_TERM})*", re.IGNORECASE)
_SETTING = re.compile(r"""(?:"([^"]+)"|'([^']+)'|([^\s"'=*@#]+))[ \t]*=[ \t]*(.*)""")
_WORD = re.compile(r"([^ \t]+)[ \t]*(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class CrontabSetting:
    """A line `NAME=value`, which holds for the lines below it."""

    number: int
    text: str
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class CrontabEntry:
    """A line that runs something: when, as whom, what, with which settings and standard input."""

    number: int
    text: str
    schedule: str
    command: str
    stdin: str | None
    user: str | None
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class UnreadableLine:
    """A line that cron could not run either, or that only cron can run."""

    number: int
    text: str
    why: str


CrontabLine = CrontabSetting | CrontabEntry | UnreadableLine


@dataclass(frozen=True, slots=True)
class Crontab:
    """A whole crontab: every line is one of `lines`, a comment, or blank."""

    lines: tuple[CrontabLine, ...]
    comments: int
    blanks: int
    has_user_column: bool
    # Cron would have made the carriage return a part of the command.
    has_carriage_returns: bool


def parse_crontab(
    text: str, *, has_user_column: bool | None = None, users: Collection[str] = ()
) -> Crontab:
    """Read a crontab. Whether its lines name users is found out from `users`, unless given."""
    raw = text.removeprefix("\ufeff").removesuffix("\n").split("\n") if text else []
    numbered = [(number, line.removesuffix("\r")) for number, line in enumerate(raw, 1)]
    stripped = [(number, line.lstrip(" \t")) for number, line in numbered]
    with_content = [
        (number, line) for number, line in stripped if line and not line.startswith("#")
    ]
    if has_user_column is None:
        has_user_column = has_user_names([line for _, line in with_content], users)
    lines: list[CrontabLine] = []
    settings: dict[str, str] = {}
    for number, line in with_content:
        found = parse_line(number, line, settings, has_user_column=has_user_column)
        if isinstance(found, CrontabSetting):
            settings = settings | {found.name: found.value}
        lines.append(found)
    return Crontab(
        tuple(lines),
        comments=sum(line.startswith("#") for _, line in stripped),
        blanks=sum(not line for _, line in stripped),
        has_user_column=has_user_column,
        has_carriage_returns=any(line.endswith("\r") for line in raw),
    )


def has_user_names(lines: Collection[str], users: Collection[str]) -> bool:
    """Whether the word before each command is a user of this machine, and one of them is root.

    `mail` and `backup` are users as well as commands: without a root among them, they are commands.
    """
    found = [split_schedule(line)[1] for line in lines if not _SETTING.fullmatch(line)]
    named = [word[1] for rest in found if (word := _WORD.fullmatch(rest))]
    return ROOT in named and all(name == ROOT or name in users for name in named)


def parse_line(
    number: int, line: str, settings: Mapping[str, str], *, has_user_column: bool
) -> CrontabLine:
    assigned = _SETTING.fullmatch(line)
    if assigned:
        name = assigned[1] or assigned[2] or assigned[3]
        return CrontabSetting(number, line, name, unquote(assigned[4].strip()))
    schedule, rest = split_schedule(line)
    if not schedule:
        return UnreadableLine(number, line, "has fewer than five fields before its command")
    user = None
    if has_user_column:
        word = _WORD.fullmatch(rest)
        user, rest = (word[1], word[2]) if word else (None, "")
    command, stdin = split_command(rest)
    if not command.strip():
        return UnreadableLine(number, line, "has no command")
    return CrontabEntry(number, line, schedule, command, stdin, user, settings)


def split_schedule(line: str) -> tuple[str, str]:
    """The fields of the schedule, and what follows them; no fields where there are too few."""
    fields: list[str] = []
    rest = line
    for _ in range(1 if line.startswith("@") else COLUMNS):
        word = _WORD.fullmatch(rest)
        if word is None:
            return "", ""
        fields.append(word[1])
        rest = word[2]
    return " ".join(fields), rest


def unquote(value: str) -> str:
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if is_quoted else value


def split_command(text: str) -> tuple[str, str | None]:
    """The command, and its standard input: what follows the first %, with newlines for others.

    A backslash before a % makes it a plain one; any other backslash stays.
    """
    command, is_escaped = "", False
    for place, character in enumerate(text):
        if character == "%" and not is_escaped:
            return command, standard_input(text[place + 1 :])
        command = command[:-1] + "%" if character == "%" else command + character
        is_escaped = character == "\\" and not is_escaped
    return command, None


def standard_input(text: str) -> str | None:
    if not text:
        return None
    given = re.sub(r"\\?%", lambda found: "%" if len(found[0]) > 1 else "\n", text)
    return given if given.endswith("\n") else f"{given}\n"


def check_fields(schedule: str) -> None:
    """Raise InvalidInput for what Evenbeat would understand, or refuse, and cron would not run."""
    if schedule.startswith("@"):
        return
    for field in schedule.split():
        if "~" in field:
            raise InvalidInput(
                "schedule", f"{field!r} is chosen by chance on every start of cron; choose with H"
            )
        if not _FIELD.fullmatch(field):
            raise InvalidInput("schedule", f"{field!r} is not a field that cron knows")


def find_warnings(entry: CrontabEntry, zone: str) -> tuple[str, ...]:
    """What a person should check, although the line can be imported as it is."""
    found: list[str] = []
    fields = entry.schedule.split()
    if len(fields) == COLUMNS:
        found.extend(find_day_warnings(fields[2], fields[4]))
        found.extend(find_step_warnings(fields))
    if entry.user is not None:
        found.append(f"cron ran it as {entry.user}, and a node runs programs as its own user")
    if entry.stdin is not None:
        found.append("what follows % is its standard input")
    if "TZ" in entry.settings:
        given = entry.settings["TZ"]
        found.append(f"TZ={given} is for the command alone: cron beats by {zone}")
    return tuple(found)


def find_day_warnings(day: str, weekday: str) -> list[str]:
    if "*" in (day, weekday):
        return []
    if day.startswith("*") or weekday.startswith("*"):
        return [
            f"both the day of the month ({day}) and the weekday ({weekday}) must fit, since one of"
            " them begins with *"
        ]
    return [
        f"runs on days {day} of the month and on weekdays {weekday} as well: cron joins them by or"
    ]


def find_step_warnings(fields: list[str]) -> list[str]:
    """Crons differ about a step without a range: to some it is none at all."""
    terms = [term for field in fields for term in field.split(",")]
    odd = [term for term in terms if "/" in term and not set(term.partition("/")[0]) & set("*-")]
    return [f"{term} begins at {term.partition('/')[0]}; some crons take it alone" for term in odd]
