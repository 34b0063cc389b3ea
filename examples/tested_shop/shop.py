"""A small shop, to be tested."""

from datetime import timedelta

from evenbeat import Evenbeat, Failed, Snoozed

eb = Evenbeat()
stock = {"book": 1, "lamp": 0}


@eb.handler("ship")
async def ship(payload: dict[str, str]) -> str | Failed | Snoozed:
    item = payload["item"]
    if item not in stock:
        return Failed(f"there is no such thing as a {item}", is_final=True)
    if not stock[item]:
        return Snoozed(timedelta(days=1), reason=f"no {item} in stock")
    stock[item] -= 1
    return f"shipped a {item}"


@eb.schedule("0 9 * * MON", tz="Europe/Berlin")
async def restock() -> None:
    for item in stock:
        stock[item] = 5


async def order(item: str) -> None:
    await eb.enqueue(ship, {"item": item}, dedupe_key=f"ship:{item}")
