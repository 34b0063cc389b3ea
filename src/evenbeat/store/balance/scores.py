"""The history of the score: how even the load was, stored every few minutes."""

from datetime import timedelta

from evenbeat.core.balance.model import Score
from evenbeat.core.balance.plan_records import ScorePoint
from evenbeat.store.database.pool import Session
from evenbeat.store.database.statements import load_statements

SQL = load_statements("balance/scores")


async def insert_score(session: Session, score: Score, job_count: int) -> None:
    """Store the score of this moment."""
    await session.execute(
        SQL["add"],
        score=score.score,
        minute_score=score.minute_score,
        peak=score.peak,
        peak_over_ideal=score.peak_over_ideal,
        job_count=job_count,
    )


async def list_scores(session: Session, *, reach: timedelta, step: timedelta) -> list[ScorePoint]:
    """The worst score of every step, oldest first."""
    rows = await session.fetch(SQL["history"], reach=reach, step=step)
    return [
        ScorePoint(
            at=row["at"],
            score=Score(row["score"], row["minute_score"], row["peak"], row["peak_over_ideal"]),
            job_count=row["job_count"],
        )
        for row in rows
    ]


async def remove_old_scores(session: Session, *, kept_for: timedelta, limit: int) -> int:
    return await session.execute(SQL["forget"], kept_for=kept_for, limit=limit)
