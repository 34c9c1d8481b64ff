"""Whether a job may ask for a range of GPUs (num=2..8). It looks at no host."""

from __future__ import annotations

from gsched.base.errors import BadRequest
from gsched.core.submission.requirement_check import CheckedRequirement
from gsched.model.jobs.job import JobSpec
from gsched.resreq.combining.stored import COMBINED_GPU
from gsched.resreq.parsing.gpu import RANGE


def check_range(spec: JobSpec, judged: CheckedRequirement) -> None:
    """Raises BadRequest, a line, for a job that asks for a range and could not go on with another number of GPUs."""
    asked = COMBINED_GPU.of(judged.gpu_text) if RANGE in judged.gpu_text else None
    if asked is None:
        return
    text = f"-gpu num={asked.num}{RANGE}{asked.most}"
    if spec.interactive:
        raise BadRequest(f"{text}: an interactive job keeps its GPUs; give one number")
    if not spec.saves_on_signal:
        detail = "a job whose number of GPUs changes is asked to save its state and begins again"
        raise BadRequest(f"{text}: {detail}: give --signal, or use a queue with CHKPNT_SIGNAL")
    if max(spec.slots, spec.max_slots) > 1 and not judged.on_one_host:
        raise BadRequest(f'{text}: a range is for a job on one host: give -R "span[hosts=1]", or one slot (-n 1)')
    parts = [term for choice in judged.choices for term in choice]
    if len(parts) > 1 or any(len(part) > 1 or len(part[0].claims) > 1 for part in parts):
        raise BadRequest(f"{text}: it does not go with alternatives, several parts or further GPUs in -R")
