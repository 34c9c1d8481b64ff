"""The smaller request that would have been enough for a job, as options of gsub.

It is made of what the job itself asked for, number by number; what cannot be told for certain stays as it was. It reads
requirements, so it takes long to import.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from gsched.base.errors import RequirementError
from gsched.model.efficiency.job_use import JobUse
from gsched.model.efficiency.verdicts import SPARE_CORES
from gsched.model.hosts.resource import GPU_COUNTERS
from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.resreq.ast import Requirement, Reservation
from gsched.resreq.parsing.gpu import GpuRequirement, parse_gpu, print_size
from gsched.resreq.parsing.names import canonical
from gsched.resreq.parsing.printer import print_requirement
from gsched.resreq.parsing.syntax import parse_any

HEADROOM = 1.2
"""So much more memory and time than was used."""
_PHYSICAL = "ngpus_physical"
_GIB, _QUARTER = 1024.0, 256.0


def enough(use: JobUse, spec: JobSpec, allocation: Allocation, *, gets_gpus_unasked: bool = False) -> str:
    """The options, each as a shell takes it; empty when nothing smaller would have been enough, or nobody knows.

    Only of a job that succeeded: another one might have needed more. They are all its options for slots, resources and
    limits, those that stay as they are among them. `gets_gpus_unasked`: its queue or its profile gives it some anyway.
    """
    if not use.is_done or not use.is_over:
        return ""
    try:
        made = _Request(use, spec, allocation, gets_gpus_unasked=gets_gpus_unasked)
    except RequirementError:
        return ""
    return shlex.join(made.words()) if made.is_smaller else ""


class _Request:
    """What was asked for, made smaller where that is known to be enough."""

    def __init__(self, use: JobUse, spec: JobSpec, allocation: Allocation, *, gets_gpus_unasked: bool) -> None:
        self._use, self._spec, self._parts = use, spec, allocation.hosts
        self._gets_gpus_unasked = gets_gpus_unasked
        self._whole = parse_any(spec.res_req)
        self._asked_gpus = parse_gpu(spec.combined_gpu_req) if spec.combined_gpu_req else None
        self.slots = self._enough_slots()
        self.gpu = self._enough_gpus()
        self.res_req = self._enough_amounts()
        self.run_limit_s = self._enough_time()

    @property
    def is_smaller(self) -> bool:
        spec, use = self._spec, self._use
        return (
            self.slots != use.asked.slots
            or self.gpu != spec.gpu_req
            or self.res_req != spec.res_req
            or self.run_limit_s != use.asked.run_limit_s
        )

    def words(self) -> list[str]:
        spec = self._spec
        slots = str(spec.slots) + (f",{spec.max_slots}" if spec.max_slots else "")
        if self.slots != self._use.asked.slots:
            slots = str(self.slots)
        is_given = "slots" not in spec.defaulted or self.slots != self._use.asked.slots
        memory_mib = None if "limits.MEMLIMIT" in spec.defaulted else spec.limits.get("MEMLIMIT")
        pairs = (
            ("-n", slots if is_given else ""),
            ("-R", self.res_req),
            ("-gpu", self.gpu),
            ("-M", "" if memory_mib is None else _size(memory_mib)),
            ("-W", "" if self.run_limit_s is None else _hours_minutes(self.run_limit_s)),
        )
        return [*(word for pair in pairs if pair[1] for word in pair), *(["-x"] if spec.exclusive else [])]

    # -- slots and time -------------------------------------------------------------------------------------------

    def _enough_slots(self) -> int:
        """As many as it kept busy at a time. Of several hosts, and where something is given by task or laid out by
        slots, they stay as they are.
        """
        slots, peak = self._use.asked.slots, self._use.usage.cpu_peak
        plain = self._plain
        is_free = plain is not None and not (plain.cu or plain.affinity) and _is_unspread(plain)
        by_task = self._asked_gpus is not None and self._asked_gpus.per == "task"
        by_task = by_task or any(item.method == "task" for item in self._claims)
        if len(self._parts) != 1 or peak is None or not is_free or by_task or self._parts[0].bindings:
            return slots
        return min(slots, max(1, math.ceil(peak - SPARE_CORES), self._slots_of_amounts(self._parts[0])))

    def _slots_of_amounts(self, part: HostAllocation) -> int:
        """The fewest slots with which it has as much as it needs of what it reserves by slot."""
        slots, fewest = self._use.asked.slots, 1
        for item in self._plain.rusage if self._plain is not None else ():
            if slots > 1 and part.amounts.get(canonical(item.name)) == item.amount * slots and item.amount > 0.0:
                needed_mib = self._needed_mib if canonical(item.name) == "mem" else None
                fewest = max(fewest, slots if needed_mib is None else math.ceil(needed_mib / item.amount))
        return fewest

    @property
    def _needed_mib(self) -> float | None:
        most_mib = self._use.usage.max_mem_mib
        return None if most_mib is None else most_mib * HEADROOM

    def _enough_time(self) -> int | None:
        limit_s = self._use.asked.run_limit_s
        if limit_s is None:
            return None
        minutes = self._use.run_s * HEADROOM / 60
        step = 5 if minutes < 60 else 15
        return min(limit_s, max(1, math.ceil(minutes / step)) * step * 60)

    # -- GPUs -----------------------------------------------------------------------------------------------------

    def _used_on(self, part: HostAllocation) -> int:
        """GPUs there that are not known to have been of no use."""
        return sum(not gpu.is_unused for gpu in self._use.gpus if gpu.asked.host == part.host)

    @property
    def _may_go_without(self) -> bool:
        """Whether it used none of its GPUs, and gets none when it asks for none."""
        is_used = any(self._used_on(part) for part in self._parts)
        return not (is_used or self._gets_gpus_unasked or self._has_gtile)

    @property
    def _claims(self) -> tuple[Reservation, ...]:
        """The GPUs that its rusage names."""
        return tuple(item for item in self._plain.rusage if _is_gpus(item)) if self._plain is not None else ()

    @property
    def _plain(self) -> Requirement | None:
        """Its -R where that is a simple one."""
        whole = self._whole
        return whole if isinstance(whole, Requirement) and not whole.rusage_alternatives else None

    def _enough_gpus(self) -> str:
        """-gpu with fewer GPUs or less memory; empty: none at all."""
        asked, text = self._asked_gpus, self._spec.gpu_req
        is_own = text.strip() not in ("", "-")
        if asked is None or self._plain is None or self._claims:
            return text
        if self._may_go_without:
            return "" if is_own else text
        changes = {**self._fewer(asked), **self._less_memory(asked)}
        if not changes:
            return text
        before = dict(_options(text if is_own else self._spec.combined_gpu_req))
        return ":".join(f"{key}={value}" for key, value in {**before, **changes}.items())

    def _fewer(self, asked: GpuRequirement) -> dict[str, str]:
        """Where GPUs are spread over sockets, fewer of them may not be possible."""
        if asked.gtile or asked.block or asked.share is not None or self._has_gtile:
            return {}
        by_task = asked.per == "task"
        needed = [math.ceil(self._used_on(part) / (part.slots if by_task else 1)) for part in self._parts]
        number = max(needed)
        return {"num": f"{number}{'/task' if by_task else ''}"} if 0 < number < asked.num and not asked.most else {}

    @property
    def _has_gtile(self) -> bool:
        span = self._plain.span if self._plain is not None else None
        return span is not None and span.gtile is not None

    def _less_memory(self, asked: GpuRequirement) -> dict[str, str]:
        used_mib = [gpu.use.mem_max_mib for gpu in self._use.gpus]
        known_mib = [mib for mib in used_mib if mib is not None]
        if asked.gmem_mib is None or len(known_mib) < len(used_mib) or not any(known_mib):
            return {}
        needed_mib = _rounded(max(known_mib) * HEADROOM)
        return {"gmem": print_size(needed_mib)} if needed_mib < asked.gmem_mib else {}

    # -- rusage ---------------------------------------------------------------------------------------------------

    def _enough_amounts(self) -> str:
        """-R with less memory and fewer GPUs in a plain rusage of a job of one host."""
        plain, text = self._plain, self._spec.res_req
        if plain is None or len(self._parts) != 1:
            return text
        made = [self._made_smaller(item, self._parts[0]) for item in plain.rusage]
        left = tuple(item for item in made if item is not None)
        return text if left == plain.rusage else print_requirement(replace(plain, rusage=left))

    def _made_smaller(self, item: Reservation, part: HostAllocation) -> Reservation | None:
        if item.phases or item.duration_s is not None or item.threshold is not None:
            return item
        if canonical(item.name) == "mem":
            return self._amount(item, self._needed_mib, part.amounts.get("mem"), _rounded, _size)
        if _is_gpus(item) and self._asked_gpus is None and len(self._claims) == 1:
            if self._may_go_without:
                return None
            used = float(max(1, self._used_on(part)))
            return self._amount(item, used, float(len(part.gpus)), math.ceil, "{:.0f}".format)
        return item

    def _amount(
        self,
        item: Reservation,
        needed: float | None,
        held: float | None,
        up: Callable[[float], float],
        written: Callable[[float], str],
    ) -> Reservation:
        """`needed` of it in place of what was asked for, which is by host or by slot, as what was held tells."""
        if needed is None or not held or item.amount <= 0.0:
            return item
        slots = self._use.asked.slots
        by = {item.amount * slots: self.slots, item.amount: 1}.get(held)
        if by is None:
            return item
        amount = float(up(needed / by))
        return replace(item, amount=amount, text=written(amount)) if amount < item.amount else item


def _is_gpus(item: Reservation) -> bool:
    name = canonical(item.name)
    return name in GPU_COUNTERS or name == _PHYSICAL


def _is_unspread(plain: Requirement) -> bool:
    """Nothing says how its slots are to lie."""
    span = plain.span
    return span is None or (span.ptile is None and not span.ptile_types and span.block is None and span.stripe is None)


def _options(text: str) -> Sequence[tuple[str, str]]:
    pairs = (option.partition("=") for option in text.split(":"))
    return [(key.strip(), value.strip()) for key, _, value in pairs]


def _rounded(mib: float) -> float:
    """Up to what a person would write."""
    step = _GIB if mib >= 4 * _GIB else _QUARTER
    return max(1, math.ceil(mib / step)) * step


def _size(mib: float) -> str:
    if mib % _GIB == 0:
        return f"{mib / _GIB:.0f}G"
    return f"{mib:.0f}M" if mib == int(mib) else f"{math.ceil(mib * 1024)}K"


def _hours_minutes(seconds: int) -> str:
    hours, minutes = divmod(math.ceil(seconds / 60), 60)
    return f"{hours}:{minutes:02d}"
