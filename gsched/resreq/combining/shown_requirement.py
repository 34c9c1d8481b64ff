"""Combined and Effective of a job with -gpu, as LSF shows them: the GPU request stands in them as a requirement does.

It only writes what a person reads. What a job is scheduled by is the text without these additions.
Source: transcripts of `bjobs -l` of LSF 10.1.0.6 and later for jobs with -gpu.
"""

from __future__ import annotations

from functools import lru_cache

from msgspec.structs import replace

from gsched.base.errors import RequirementError
from gsched.resreq.ast import Requirement, Reservation
from gsched.resreq.combining.stored import COMBINED, COMBINED_GPU
from gsched.resreq.parsing.gpu import GpuRequirement
from gsched.resreq.parsing.names import canonical
from gsched.resreq.parsing.printer import format_amount, print_any, print_combined, print_select
from gsched.resreq.parsing.simple import with_rusage

PHYSICAL = "ngpus_physical"
_CONDITION = "(ngpus>0)"


@lru_cache(maxsize=1024)
def with_gpus(text: str, gpu: str, *, is_effective: bool = False) -> str:
    """The combined requirement `text` with the GPUs that `gpu` asks for: `(ngpus>0)` and `ngpus_physical=2.00`.

    In the Effective line LSF puts one more pair of parentheses around the condition. A text that cannot be read is
    given back as it is, and so is any text where `gpu` is empty.
    """
    if not text or not gpu:
        return text
    try:
        asked, whole = COMBINED_GPU.of(gpu), COMBINED.of(text)
    except RequirementError:
        return text
    if asked is None:
        return text
    condition = f"({_CONDITION})" if is_effective else _CONDITION
    return print_any(whole, lambda part, _: _part(part, asked, condition))


def _part(part: Requirement, asked: GpuRequirement, condition: str) -> str:
    amount = float(asked.num) if asked.share is None else asked.share
    claim = Reservation(PHYSICAL, amount, format_amount(amount), "task" if asked.per == "task" else "")
    others = ([item for item in usage if canonical(item.name) != PHYSICAL] for usage in part.every_rusage)
    select = "" if part.select is None else print_select(part.select)
    if select and not (select.startswith("(") and " && " in select):
        select = f"({select})"
    rest = print_combined(replace(with_rusage(part, [(*usage, claim) for usage in others]), select=None))
    return f"select[{' && '.join(filter(None, (condition, select)))}] {rest}".rstrip()
