"""Reading schedules: the text that people write, the object that programs send."""

from typing import Any, cast

from evenbeat.core.errors import InvalidInput
from evenbeat.core.time.durations import check_plain_text
from evenbeat.core.time.schedules.base.options import RuleOptions, is_option, split_options
from evenbeat.core.time.schedules.base.schedule import KINDS, Schedule

_EXAMPLES = '"every 30m", "daily 06:00 Europe/Berlin", "sun 02:00", "0 8 * * MON-FRI", "now"'


def parse_schedule(text: Any) -> Schedule:
    """Read a schedule from its text."""
    words, given = split_options(check_plain_text(text, "schedule").split())
    if not words:
        raise InvalidInput("schedule", f"is empty; write for example {_EXAMPLES}")
    kind = KINDS.get(words[0].lower())
    if kind is not None:
        del words[0]
    else:
        kind = next((kind for kind in KINDS.values() if kind.claims(words)), None)
    if kind is None:
        raise InvalidInput("schedule", f"is not understood; write for example {_EXAMPLES}")
    return kind.from_words(
        words, RuleOptions.from_object(given).restricted_to(kind.allows, kind.kind)
    )


def parse_schedule_object(value: Any) -> Schedule:
    """Read a schedule from its object; a string stands for its text."""
    if isinstance(value, str):
        return parse_schedule(value)
    if not isinstance(value, dict):
        raise InvalidInput("schedule", f"must be an object or a text, for example {_EXAMPLES}")
    given = cast("dict[Any, Any]", value)
    kinds = [name for name in given if name in KINDS]
    for name in given:
        if name not in KINDS and not is_option(name):
            raise InvalidInput(f"schedule.{str(name)[:40]}", "is not a field of a schedule")
    if len(kinds) != 1:
        raise InvalidInput("schedule", f"must have exactly one of {', '.join(sorted(KINDS))}")
    kind = KINDS[kinds[0]]
    options = {name: each for name, each in given.items() if is_option(name) and each is not None}
    return kind.from_value(
        given[kind.kind], RuleOptions.from_object(options).restricted_to(kind.allows, kind.kind)
    )
