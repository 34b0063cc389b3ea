"""A row of yours and the job that follows from it, in one transaction: both or neither.

    EVENBEAT_DATABASE_URL=postgresql://… python transactional_enqueue.py

The database must have been prepared by `evenbeat db migrate`, `up` or `server`.
"""

import asyncio

import asyncpg

from evenbeat import Evenbeat

eb = Evenbeat()


@eb.handler("ship")
async def ship(payload: dict[str, str]) -> str:
    return f"shipped {payload['item']}"


async def order(connection: asyncpg.Connection, item: str, *, is_paid: bool) -> None:
    """On a connection of asyncpg, which `eb` need not have made."""
    async with connection.transaction():
        await connection.execute("insert into orders (item) values ($1)", item)
        await eb.enqueue(ship, {"item": item}, connection=connection)
        if not is_paid:
            raise ValueError(f"{item} is not paid")


async def order_in_sql(connection: asyncpg.Connection, item: str) -> None:
    """By SQL alone, so with any driver: psycopg, SQLAlchemy's `session.execute(text(…))`, psql."""
    async with connection.transaction():
        await connection.execute("insert into orders (item) values ($1)", item)
        await connection.execute(
            "select evenbeat.enqueue('ship', jsonb_build_object('item', $1::text))", item
        )


async def main() -> None:
    async with eb:
        connection = await asyncpg.connect(eb.database.url)
        await connection.execute("create temporary table orders (item text)")
        await order(connection, "a book", is_paid=True)
        try:
            await order(connection, "a lamp", is_paid=False)
        except ValueError as error:
            print(error)
        await order_in_sql(connection, "a chair")
        orders = await connection.fetch("select item from orders")
        jobs = await connection.fetch("select payload ->> 'item' as item from evenbeat.job")
        print("ordered:", ", ".join(row["item"] for row in orders))
        print("to be shipped:", ", ".join(row["item"] for row in jobs))
        await connection.close()


if __name__ == "__main__":
    asyncio.run(main())
