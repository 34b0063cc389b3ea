"""A script with three scheduled functions: `python three_schedules.py`.

It brings its own PostgreSQL, in `.evenbeat/`, unless EVENBEAT_DATABASE_URL names another one. Start
it a second time, here or on another machine with the same database: every beat is run once, by one
of them.
"""

from evenbeat import Evenbeat, Failed, RunContext

eb = Evenbeat()


@eb.schedule("every 10m")
def heartbeat() -> str:
    """A plain function runs in a thread, and may block."""
    return "alive"


@eb.schedule("0 8 * * MON-FRI", tz="Europe/Berlin", name="morning report", max_attempts=5)
async def report(context: RunContext) -> dict[str, str]:
    """A coroutine runs on the loop, beside others. The beat is the instant it is meant for."""
    return {"report for": f"{context.beat_at:%Y-%m-%d}"}


@eb.schedule("daily 03:00", payload={"older_than_days": 30}, timeout="10m")
def clean_up(payload: dict[str, int]) -> str | Failed:
    """What is wrong for good is not tried again."""
    days = payload["older_than_days"]
    if days < 1:
        return Failed(f"would remove everything: {days} days", is_final=True)
    return f"removed what is older than {days} days"


if __name__ == "__main__":
    eb.run()
