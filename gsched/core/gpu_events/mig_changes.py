"""What is said of jobs below which MIG was changed: a part of a GPU that a job holds is gone, or its GPU is split.

The books offer nothing of such a GPU until the job has ended (HostLedger.torn). Nobody is ended here: a job whose part
is gone fails by itself, and one that had not begun to use it may live.
"""

from __future__ import annotations

from gsched.base.coded_text import CodedText, coded
from gsched.core.decision import Decision
from gsched.model.allocation import HeldGpu
from gsched.model.devices import is_astray
from gsched.model.event import JobNoted


def note_lost_parts(host: str, decision: Decision) -> None:
    """Note each such job of the host once for each GPU. What was seen last must be in the books."""
    books = decision.state.ledger.host(host)
    if not books.gpus_known or not books.torn:
        return
    for (job_id, attempt), part in books.held.items():
        job = decision.state.jobs.get(job_id)
        if job is None or job.attempt != attempt:
            continue
        for held in part.gpus:
            gpu = books.gpus.get(held.board)
            # A GPU that is gone as a whole, or lost, is another matter.
            if gpu is not None and not gpu.fault and is_astray(held, books.gpus):
                text = _text(attempt, held, host)
                if text not in job.notes:
                    decision.record(JobNoted(at=decision.now, job_id=job_id, text=text))


def _text(attempt: int, held: HeldGpu, host: str) -> CodedText:
    gpu = (held.index, held.board, host)
    if not held.parent:
        return coded("note.gpu_split", attempt, *gpu)
    return coded("note.mig_device_gone", attempt, held.uuid, held.profile, *gpu)
