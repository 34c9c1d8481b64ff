"""Events, rows and damage for the store's tests."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from gsched.model.event import AnyEvent, JobNoted, JobSubmitted
from gsched.model.jobs.job import JobSpec
from gsched.store.tables.schema import JobRow

SPEC = JobSpec(command="python train.py", user="ann", queue="normal", name="train")


def submitted(job_id: int, at: float = 1000.0) -> JobSubmitted:
    return JobSubmitted(at=at, job_id=job_id, spec=SPEC, token=f"t{job_id}")


def noted(job_id: int, text: str = "a remark", at: float = 1001.0) -> JobNoted:
    return JobNoted(at=at, job_id=job_id, text=text)


def batch_of(job_id: int) -> list[AnyEvent]:
    """Three events that must be stored together or not at all."""
    return [submitted(job_id), noted(job_id, "second"), noted(job_id, "third")]


def job_row(job_id: int, **changes: object) -> JobRow:
    values: dict[str, object] = {
        "job_id": job_id,
        "user": "ann",
        "queue": "normal",
        "name": "train",
        "project": "default",
        "state": "PEND",
        "submitted_at": 1000.0,
    }
    return JobRow(**(values | changes))  # type: ignore[arg-type]


def damage(path: Path, statement: str, *values: object) -> None:
    """Change a store that nobody has open, behind its back."""
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement, values)
    connection.close()
