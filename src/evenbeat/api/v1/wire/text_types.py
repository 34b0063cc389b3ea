"""Types of texts: what PostgreSQL cannot store is refused by its field."""

from typing import Annotated

from pydantic import AfterValidator, Field

from evenbeat.core.errors import InvalidInput
from evenbeat.core.jobs.payload import check_text
from evenbeat.core.limits import LONGEST_SEARCH


def check_storable(text: str) -> str:
    try:
        check_text(text, "")
    except InvalidInput as error:
        raise ValueError(error.errors[0].message) from None
    return text


Storable = Annotated[str, AfterValidator(check_storable)]
# Names, keys, and the texts that a filter looks for.
Name = Annotated[Storable, Field(min_length=1, max_length=LONGEST_SEARCH)]
