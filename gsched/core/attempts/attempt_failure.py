"""Why an attempt failed, as far as the state knows more of it than its agent: errors of GPUs on all of its hosts."""

from __future__ import annotations

from gsched.base.coded_text import CodedText
from gsched.core.records.job import JobRecord
from gsched.model.gpus.xid import xids_in
from gsched.model.jobs.failure import judge
from gsched.model.jobs.job import AttemptResult

_FAILED = "gpu.has_failed"
_OF_GPUS = ("note.xid", "note.gpu_failed")
"""Notes that begin with the number of the attempt."""


def with_gpu_errors(job: JobRecord, result: AttemptResult) -> AttemptResult:
    """The result of its attempt that ends, with the errors that the driver has told of its GPUs."""
    xids = _xids_of(job)
    if not xids or (result.succeeded and result.started):
        return result
    return judge(result, result.failure, xids=xids)


def host_of_gpu_error(job: JobRecord) -> str:
    """The host of the first GPU of its attempt of which the driver has told an error; empty where there is none."""
    for note in _notes_of_gpus(job):
        told = next((value for value in note.values if isinstance(value, CodedText) and value.code == _FAILED), None)
        values, place = (note.values, 4) if told is None else (told.values, 2)
        if len(values) > place:
            return str(values[place])
    return ""


def _xids_of(job: JobRecord) -> tuple[int, ...]:
    return tuple(number for note in _notes_of_gpus(job) for number in xids_in(note))


def _notes_of_gpus(job: JobRecord) -> list[CodedText]:
    """Those of its attempt."""
    told = [note for note in job.notes if isinstance(note, CodedText) and note.code in _OF_GPUS]
    return [note for note in told if note.values[:1] == (job.attempt,)]
