"""One job on its way through the house, from creation to its history row."""

from collections.abc import Callable

from tests.support.processes import Api, Process


async def test_an_echo_job_runs_once_and_its_result_is_in_its_history(
    start: Callable[..., Process], client: Callable[..., Api]
) -> None:
    server, worker = start("server"), start("worker")
    api = client(await server.ready())
    await worker.ready()
    job = await api.create(kind="echo", payload={"hello": "world"})
    run = await api.completed(job["id"])
    assert run["result"] == {"hello": "world"}
    assert run["execution_number"] == 1
    assert await worker.stop() == 0
    assert await server.stop() == 0
