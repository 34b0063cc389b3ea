"""Tests of the shop; pytest-asyncio, or anyio's plugin, runs those that are coroutines."""

import asyncio

import pytest
from conftest import FRIDAY
from shop import order, restock, ship, stock

from evenbeat import Evenbeat, Failed, RunState
from evenbeat.testing.kit import Kit
from evenbeat.testing.perform import perform


@pytest.fixture(autouse=True)
def a_book_and_no_lamp() -> None:
    stock.update(book=1, lamp=0)


def test_what_does_not_exist_is_not_tried_again(evenbeat_app: Evenbeat) -> None:
    """Without a database: the handler, called as a node would call it."""
    outcome = asyncio.run(perform(evenbeat_app, ship, {"item": "dragon"}))
    assert outcome == Failed("there is no such thing as a dragon", is_final=True)


async def test_an_order_is_shipped_once(evenbeat_kit: Kit) -> None:
    async with evenbeat_kit as kit:
        await order("book")
        await order("book")
        await kit.assert_enqueued(ship, payload={"item": "book"}, count=1)
        [run] = await kit.run_due()
        assert (run.state, run.result) == (RunState.COMPLETED, "shipped a book")


async def test_what_is_out_of_stock_is_shipped_after_monday(evenbeat_kit: Kit) -> None:
    async with evenbeat_kit as kit:
        await order("lamp")
        job = await kit.assert_enqueued(ship)
        runs = await kit.clock.move_to(FRIDAY.replace(day=8))
        [restocked] = [run for run in runs if run.job_uid != job.uid]
        assert restocked.started_at.isoformat() == "2030-05-06T07:00:00+00:00", "nine in Berlin"
        *waited, shipped = await kit.runs(job)
        assert [run.reason for run in waited] == ["no lamp in stock"] * 3
        assert shipped.result == "shipped a lamp"
        await kit.assert_enqueued(restock, name="restock", count=1)
