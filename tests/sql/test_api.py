"""Jobs that call SQL functions, made by clients of the API."""

from collections.abc import Callable

from tests.sql.sql_schema import SqlSchema
from tests.support.processes import Api, Process

JOBS = "/api/v1/jobs"
JOB = {"kind": "sql_function", "schedule": "every 1h"}


async def test_a_client_may_add_a_job_of_a_function_that_is_there(
    sql_schema: SqlSchema, start: Callable[..., Process], client: Callable[..., Api]
) -> None:
    await sql_schema.function("return null;")
    api = client(await start("server").ready())
    refused = await api.post(JOBS, JOB | {"payload": {"function": "shop.nowhere"}})
    assert refused.status_code == 422
    [error] = refused.json()["errors"]
    assert error["field"] == "payload.function"
    assert "there is no function shop.nowhere" in error["message"]
    assert await sql_schema.value("select count(*) from evenbeat.job") == 0
    made = await api.create(**JOB, payload={"function": "shop.work"})
    shown = (await api.get(f"{JOBS}/{made['id']}")).json()
    assert (shown["kind"], shown["payload"]) == ("sql_function", {"function": "shop.work"})
