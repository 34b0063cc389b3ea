"""Templates: the fields of a job with blanks in them, `${site}`, that are filled in to make one."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from evenbeat.core.errors import FieldError, InvalidInput
from evenbeat.core.jobs.payload import check_json, check_text
from evenbeat.core.limits import LONGEST_DESCRIPTION, LONGEST_TEMPLATE_NAME, MOST_PARAMETERS

NAME = re.compile(r"[a-z0-9][a-z0-9._-]*", re.ASCII)
BLANK = re.compile(r"\$\{([^{}]*)\}")
PARAMETER = re.compile(r"[a-z][a-z0-9_]{0,49}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Template:
    """A job with blanks. `parameters` are the blanks with their defaults; None: must be given."""

    name: str
    job: dict[str, Any]
    parameters: dict[str, Any] = field(default_factory=dict[str, Any])
    description: str | None = None
    version: int = 1
    created_at: datetime | None = None
    updated_at: datetime | None = None

    def __post_init__(self) -> None:
        if len(self.name) > LONGEST_TEMPLATE_NAME or not NAME.fullmatch(self.name):
            raise InvalidInput("name", "must be letters, digits and . _ -, as in crawl-site")
        check_text(self.description or "", "description")
        if len(self.description or "") > LONGEST_DESCRIPTION:
            raise InvalidInput("description", f"is longer than {LONGEST_DESCRIPTION} characters")
        check_json(self.job, "job")
        check_json(self.parameters, "parameters")
        self._check_parameters()

    def _check_parameters(self) -> None:
        if len(self.parameters) > MOST_PARAMETERS:
            raise InvalidInput("parameters", f"there are more than {MOST_PARAMETERS}")
        for name in self.parameters:
            if not PARAMETER.fullmatch(name):
                raise InvalidInput(f"parameters.{name}", "must be a word in small letters")
        blanks = set(find_blanks(self.job))
        if unknown := sorted(blanks - self.parameters.keys()):
            raise InvalidInput(
                "parameters", f"the job has blanks that are no parameters: {', '.join(unknown)}"
            )
        if unused := sorted(self.parameters.keys() - blanks):
            raise InvalidInput("parameters", f"no blank of the job is named {', '.join(unused)}")

    def fill_in(self, given: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of a job; a blank that is a whole text takes the value as it is."""
        faults = [
            FieldError(f"parameters.{name}", "is no parameter of this template")
            for name in given
            if name not in self.parameters
        ]
        values = {**self.parameters, **given}
        faults += [
            FieldError(f"parameters.{name}", "must be given")
            for name, value in values.items()
            if value is None
        ]
        if faults:
            raise InvalidInput(faults[0].field, faults[0].message, more=faults[1:])
        return cast("dict[str, Any]", fill_blanks(self.job, values)) | dict(overrides)


def find_blanks(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield from BLANK.findall(value)
        case dict():
            for item in cast("dict[str, Any]", value).values():
                yield from find_blanks(item)
        case list():
            for item in cast("list[Any]", value):
                yield from find_blanks(item)
        case _:
            return


def fill_blanks(value: Any, values: Mapping[str, Any]) -> Any:
    match value:
        case str():
            whole = BLANK.fullmatch(value)
            if whole:
                return values[whole[1]]
            return BLANK.sub(lambda blank: str(values[blank[1]]), value)
        case dict():
            items = cast("dict[str, Any]", value).items()
            return {key: fill_blanks(item, values) for key, item in items}
        case list():
            return [fill_blanks(item, values) for item in cast("list[Any]", value)]
        case _:
            return value
