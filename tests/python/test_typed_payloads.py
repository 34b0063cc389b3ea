"""Typed payloads: checked when the job is added, made when it runs."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel

from evenbeat import Done, Evenbeat, Failed, InvalidInput
from evenbeat.testing.perform import perform


@dataclass(frozen=True)
class Line:
    item: str
    count: int = 1


@dataclass(frozen=True)
class Order:
    customer: str
    lines: list[Line] = field(default_factory=list)
    at: datetime | None = None


class Mail(BaseModel):
    to: str
    urgent: bool = False


@pytest.fixture
def app() -> Evenbeat:
    eb = Evenbeat(database_url="postgresql://nowhere/none")

    @eb.handler("order")
    def order(payload: Order) -> Any:
        assert isinstance(payload, Order)
        return [payload.customer, [line.count for line in payload.lines], str(payload.at)]

    @eb.handler("mail")
    async def mail(mail: "Mail") -> Any:
        return [type(mail).__name__, mail.to, mail.urgent]

    @eb.handler("plain")
    def plain(payload: dict[str, int]) -> Any:
        return payload

    @eb.handler("unknown")
    def unknown(payload: "ForTypeCheckers") -> Any:  # noqa: F821
        return payload

    return eb


async def test_a_handler_is_given_its_own_type(app: Evenbeat) -> None:
    given = {
        "customer": "A",
        "lines": [{"item": "x", "count": 2}, {"item": "y"}],
        "at": "2030-01-01T00:00Z",
    }
    assert await perform(app, "order", given) == Done(["A", [2, 1], "2030-01-01 00:00:00+00:00"])
    assert await perform(app, "mail", {"to": "me"}) == Done(["Mail", "me", False])


async def test_the_type_itself_can_be_the_payload(app: Evenbeat) -> None:
    order = Order("A", [Line("x")], datetime(2030, 1, 1, tzinfo=UTC))
    assert app.call("order", order)[1] == {
        "customer": "A",
        "lines": [{"item": "x", "count": 1}],
        "at": "2030-01-01T00:00:00Z",
    }
    assert await perform(app, "order", order) == Done(["A", [1], "2030-01-01 00:00:00+00:00"])
    assert await perform(app, "mail", Mail(to="you", urgent=True)) == Done(["Mail", "you", True])


@pytest.mark.parametrize(
    ("kind", "payload", "field"),
    [
        ("order", {}, "payload.customer"),
        (
            "order",
            {"customer": "A", "lines": [{"item": "x", "count": "two"}]},
            "payload.lines[0].count",
        ),
        ("order", [], "payload"),
        ("mail", {"to": 3}, "payload.to"),
    ],
)
def test_what_does_not_fit_is_refused_by_its_field(
    app: Evenbeat, kind: str, payload: Any, field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        app.registry[kind].check(payload)
    assert refused.value.errors[0].field == field


async def test_a_secret_is_checked_when_it_is_filled_in(
    app: Evenbeat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENBEAT_SECRET_ADDRESS", "hidden@example.org")
    given = {"to": {"secret": "address"}}
    assert await perform(app, "mail", given) == Done(["Mail", "(secret)", False])
    failed = await perform(app, "mail", {"to": {"secret": "address"}, "urgent": "perhaps"})
    assert isinstance(failed, Failed)
    assert "payload.urgent" in failed.error
    assert "hidden" not in failed.error + (failed.stack_trace or "")


async def test_other_annotations_ask_for_nothing(app: Evenbeat) -> None:
    assert await perform(app, "plain", {"a": "no number"}) == Done({"a": "no number"})
    assert await perform(app, "unknown", {"a": 1}) == Done({"a": 1})
