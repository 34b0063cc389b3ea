"""`up`, `server` and `worker` with the embedded server: from nothing, and through every end."""

import asyncio
import os
import signal

import asyncpg

from tests.postgres.support import free_port
from tests.support.processes import Api
from tests.support.waiting import eventually


async def test_up_runs_the_first_job_and_is_gone_after_ctrl_c_with_everything_kept(
    place, api_at
) -> None:
    # As people do it: in an empty directory, with a token from another terminal.
    token = place.call("token").stdout.splitlines()[-1]
    up = place.start("up")
    url = await up.ready()
    api = api_at(url, token)
    assert (await api.get("/livez")).json() == {"status": "alive"}
    assert (await api.get("/readyz")).json()["status"] == "ready"
    job = await api.create(kind="echo", payload={"hello": "world"})
    run = await api.completed(job["id"])
    assert run["result"] == {"hello": "world"}

    up.signal(signal.SIGINT)
    assert await up.ended() == 0
    assert not place.has_postgres()

    again = place.start("up", DEV_COMMAND="./dev evenbeat")
    api = api_at(await again.ready(), token)
    assert "with: ./dev evenbeat token" in await again.says("with:")
    found = (await api.get(f"/api/v1/jobs/{job['id']}")).json()
    assert (found["status"], found["payload"]) == ("completed", {"hello": "world"})
    assert await api.executions(job["id"]) == [run]
    assert await again.stop() == 0
    assert not place.has_postgres()


async def test_up_says_where_it_is_and_how_to_get_a_token_once_it_is_ready(place, api_at) -> None:
    up = place.start("up", "--data-dir", ".evenbeat")
    url = await up.ready()
    output = await up.says("evenbeat token")
    assert f"The API is at {url}/api/v1" in output
    assert output.index("Node joined") < output.index("Evenbeat is ready")
    advice = output.partition("with: evenbeat ")[2].splitlines()[0]
    token = place.call(*advice.split()).stdout.splitlines()[-1]
    await api_at(url, token).create(kind="echo")

    # The same home serves the commands for the database, without a word too many.
    found = place.call("db", "url").stdout
    assert found.count("\n") == 1
    connection = await asyncpg.connect(found.strip())
    assert await connection.fetchval("select count(*) from evenbeat.job") == 1
    await connection.close()

    up.signal(signal.SIGTERM)
    assert await up.ended() == 0
    output = up.output
    assert output.index("Evenbeat is stopping") < output.index("Node left")
    assert "Evenbeat has stopped" in output
    assert "Traceback" not in output


async def test_nothing_that_was_accepted_is_lost_when_everything_is_killed(
    secret_place, api_at
) -> None:
    up = secret_place.start("up")
    api = api_at(await up.ready())
    first = await api.create(kind="echo", payload="first")
    run = await api.completed(first["id"])
    accepted: list[dict[str, object]] = []

    async def create_for_ever(api: Api) -> None:
        while True:
            accepted.append(await api.create(kind="echo", payload=len(accepted)))

    creating = asyncio.create_task(create_for_ever(api))
    await eventually(lambda: len(accepted) >= 30, "30 accepted jobs")
    postmaster = secret_place.postmaster
    assert postmaster is not None
    os.kill(postmaster, signal.SIGKILL)
    up.kill()
    await asyncio.wait([creating])
    assert creating.exception() is not None

    again = secret_place.start("up")
    api = api_at(await again.ready())
    assert await api.executions(first["id"]) == [run]
    for job in accepted:
        last = await api.completed(job["id"])
        assert last["result"] == job["payload"]
    assert await again.stop() == 0
    assert not secret_place.has_postgres()


async def test_a_worker_waits_for_the_schema_and_the_last_one_stops_the_server(
    secret_place, api_at
) -> None:
    worker = secret_place.start("worker")
    await worker.says("Waiting for the schema")
    assert "Evenbeat is ready" not in worker.output
    server = secret_place.start("server")
    api = api_at(await server.ready())
    await worker.ready()
    job = await api.create(kind="echo", payload="shared")
    assert (await api.completed(job["id"]))["result"] == "shared"
    postmaster = secret_place.postmaster

    assert await server.stop() == 0
    assert secret_place.postmaster == postmaster, "the worker still needs it"
    assert await worker.stop() == 0, worker.output
    assert not secret_place.has_postgres()
    assert worker.output.count("Waiting for the schema") == 1


async def test_a_worker_that_waits_for_the_schema_can_be_stopped(secret_place) -> None:
    worker = secret_place.start("worker")
    await worker.says("Waiting for the schema")
    assert await worker.stop() == 0, worker.output
    assert "Evenbeat is ready" not in worker.output
    assert not secret_place.has_postgres()


async def test_up_and_its_server_end_with_their_terminal(place) -> None:
    up = place.start("up")
    await up.ready()
    up.signal(signal.SIGHUP)
    assert await up.ended() == 0
    assert not place.has_postgres()


async def test_a_killed_postmaster_is_started_again_and_work_goes_on(secret_place, api_at) -> None:
    port = free_port()
    up = secret_place.start("up", EVENBEAT_PG_PORT=str(port), EVENBEAT_LOG_FORMAT="json")
    await up.says("Evenbeat is ready")
    url = up.output.partition('"url": "')[2].partition('"')[0]
    api = api_at(url)
    before = secret_place.postmaster
    assert before is not None
    os.kill(before, signal.SIGKILL)
    await eventually(lambda: secret_place.postmaster not in (None, before), "another postmaster")

    async def is_ready() -> bool:
        return (await api.get("/readyz")).status_code == 200

    await eventually(is_ready, "readiness")
    job = await api.create(kind="echo", payload="after")
    assert (await api.completed(job["id"]))["result"] == "after"

    # The port is open to those with the password, on loopback; and the logs do not give it away.
    password = (secret_place.data_dir / "password").read_text().strip()
    connection = await asyncpg.connect(
        host="127.0.0.1", port=port, user="evenbeat", password=password, database="evenbeat"
    )
    assert await connection.fetchval("show listen_addresses") == "127.0.0.1"
    await connection.close()
    assert await up.stop() == 0
    assert password not in up.output
    assert "Traceback" not in up.output
    assert not secret_place.has_postgres()
