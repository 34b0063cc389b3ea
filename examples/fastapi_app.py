"""A FastAPI application with Evenbeat inside: `uvicorn fastapi_app:app`.

The process answers requests and runs jobs. Where others run them, `async with eb` is enough in the
place of `async with eb.worker()`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

from fastapi import FastAPI, HTTPException

from evenbeat import Evenbeat, NotFound

eb = Evenbeat()


@eb.handler("thumbnail")
async def make_thumbnail(payload: dict[str, str]) -> str:
    return f"{payload['picture']}.small"


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with eb.worker():
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/pictures/{name}", status_code=202)
async def add_picture(name: str) -> dict[str, str]:
    # Asked for twice while it waits, it is made once.
    job = await eb.enqueue(make_thumbnail, {"picture": name}, dedupe_key=f"thumbnail:{name}")
    return {"job": str(job.uid)}


@app.get("/jobs/{uid}")
async def look_at(uid: UUID) -> dict[str, object]:
    try:
        page = await eb.runs.of_job(uid)
    except NotFound as error:
        raise HTTPException(404, str(error)) from None
    return {"explained": await eb.jobs.explain(uid), "results": [run.result for run in page.runs]}
