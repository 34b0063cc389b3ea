"""`H` in cron fields: a value that a job's name chooses, so that jobs spread by themselves.

As in Jenkins: `H` any value of the field, `H/15` every 15 from a chosen start, `H(0-29)` any value
of the range, `H(0-29)/10` both. The same seed always chooses the same values.
"""

from hashlib import blake2b

from evenbeat.core.errors import InvalidInput
from evenbeat.core.time.schedules.base.cron_pattern import FIELD

MAX_SEED = 64

# Days end at 28, so that a chosen day exists in every month; Sunday is 0 only.
_FIELDS = (
    ("second", 0, 59),
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day", 1, 28),
    ("month", 1, 12),
    ("weekday", 0, 6),
)


def has_hash_fields(expression: str) -> bool:
    return any(_is_hash_term(term) for field in expression.split() for term in field.split(","))


def resolve_hash_fields(expression: str, seed: str) -> str:
    """The expression with every H replaced by what the seed chooses."""
    parts = expression.split()
    if len(parts) not in (5, 6):
        return expression
    fields = _FIELDS[len(_FIELDS) - len(parts) :]
    return " ".join(
        ",".join(
            _choose_value(term, field, seed) if _is_hash_term(term) else term
            for term in part.split(",")
        )
        for part, field in zip(parts, fields, strict=False)
    )


def build_seed(name: str) -> str:
    """A job's name as a seed: itself where it is one short word, a digest of it otherwise."""
    return name if is_seed(name) else _digest(name).hex()


def is_seed(text: str) -> bool:
    return (
        0 < len(text) <= MAX_SEED
        and text.isascii()
        and all(sign.isalnum() or sign in "._-:" for sign in text)
    )


def _is_hash_term(term: str) -> bool:
    return term.startswith("H")


def _choose_value(term: str, field: tuple[str, int, int], seed: str) -> str:
    name, low, high = field
    body, slash, step_text = term[1:].partition("/")
    if body:
        low, high = _range(term, body, field)
    hashed = int.from_bytes(_digest(f"{seed}\0{name}"))
    size = high - low + 1
    if not slash:
        return str(low + hashed % size)
    step = _number(term, step_text)
    if step < 1:
        raise InvalidInput(FIELD, f"{term!r}: the step must be at least 1")
    return ",".join(map(str, range(low + hashed % min(step, size), high + 1, step)))


def _range(term: str, body: str, field: tuple[str, int, int]) -> tuple[int, int]:
    name, lowest, highest = field
    if not (body.startswith("(") and body.endswith(")")):
        raise InvalidInput(FIELD, f"{term!r}: write H, H/15, H(0-29) or H(0-29)/10")
    low_text, _, high_text = body[1:-1].partition("-")
    low, high = _number(term, low_text), _number(term, high_text)
    if not lowest <= low <= high <= highest:
        raise InvalidInput(FIELD, f"{term!r}: the {name}s to choose from are {lowest}-{highest}")
    return low, high


def _number(term: str, text: str) -> int:
    if not text.isdigit() or len(text) > len("59"):
        raise InvalidInput(FIELD, f"{term!r}: {text!r} is not a number of this field")
    return int(text)


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
