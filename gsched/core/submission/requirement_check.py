"""Is a resource requirement one that this cluster understands and can honour? Judged once per text, then remembered.

Here the texts of a job, its application profile, its queue and the cluster come in: each is read once, and from then on
values are checked and combined. The value is kept with the combined text that events hold (resreq.combining.stored).
Reading and combining costs some hundred microseconds, and thousands of submissions share a requirement. It never looks
at what hosts have now: whether a host could meet it is admission's question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import msgspec

from gsched.base.coded_text import AnyText, coded
from gsched.base.errors import RequirementError
from gsched.core.submission.device_fit import Wishes, wishes_of
from gsched.core.submission.known_resources import (
    GPUS_OF_LSF,
    check_gpu,
    check_requirement,
    check_reserved,
    check_units,
    has_type,
    is_increasing,
)
from gsched.model.config import ClusterConfig, GpuUnrequested
from gsched.model.hosts.resource import GPU_COUNTERS, ResourceType, gpu_counter_claims
from gsched.model.texts_of_before import is_of_requirement
from gsched.resreq.amount_steps import at_start
from gsched.resreq.ast import (
    Alternatives,
    AnyRequirement,
    Compound,
    Requirement,
    Reservation,
    simple_parts,
    with_parts,
)
from gsched.resreq.combining.combine import NOTHING, Combined, combine
from gsched.resreq.combining.stored import COMBINED, COMBINED_GPU
from gsched.resreq.parsing.gpu import (
    GpuRequirement,
    asks_for_none,
    gpu_of,
    merge_gpu,
    parse_gpu,
    print_gpu,
)
from gsched.resreq.parsing.lexer import refuse
from gsched.resreq.parsing.names import canonical
from gsched.resreq.parsing.simple import with_rusage
from gsched.resreq.parsing.syntax import BAD_SYNTAX, parse_any, parse_combined_any

REMEMBERED = 1024
"""Requirements that are remembered per configuration."""


@dataclass(frozen=True, slots=True)
class LeastUse:
    """What a job reserves on a host at the least: consumable amounts, and devices by the counter that claims them."""

    amounts: Mapping[str, float]
    claims: Mapping[str, int]


ConsumableUses = tuple[tuple[LeastUse, ...], ...]
"""For each term of a compound (one for a simple requirement) what its hosts may be asked for: any of these."""


@dataclass(frozen=True, slots=True)
class CheckedRequirement:
    """A requirement that can be scheduled by: the combined texts, and what a job reserves at the least.

    `choices` are the alternatives of `{..} || {..}`. `tasks` is what a compound says -n is; None when -n says it.
    """

    text: str
    gpu_text: str
    choices: tuple[ConsumableUses, ...]
    warnings: tuple[AnyText, ...] = ()
    tasks: int | None = None
    on_one_host: bool = False
    """All slots must be on one host."""
    wishes: tuple[Wishes, ...] = ()
    """What is wished of GPUs beyond their number, for each alternative."""
    per_host: int | None = None
    """Most slots that span[ptile] or span[stripe] puts on a host; None when that depends on the host or is not said."""
    tiling: str = ""
    """What says so, as it is written."""
    refuses_gpus: bool = False
    """It is to have none, though others get one unasked."""
    blocks: tuple[int, ...] = ()
    """Numbers of span[block], of the requirement or of each of its alternatives that has one."""

    @property
    def wants_gpus(self) -> bool:
        return bool(self.gpu_text) or any(usage.claims for choice in self.choices for term in choice for usage in term)

    @property
    def takes_unasked(self) -> bool:
        """Whether it gets a GPU where jobs get one unasked (GPU_UNREQUESTED)."""
        return not self.wants_gpus and not self.refuses_gpus


CheckRequirement = Callable[[str, str, str, int, str], CheckedRequirement]
"""(requirement text, GPU requirement text, queue name, slots, application profile or "") -> Judged. Raises
RequirementError or BadRequest."""


def lasting(warnings: Iterable[AnyText]) -> list[AnyText]:
    """The warnings of a job that are not about its requirement: another judgement does not take them back."""
    return [text for text in warnings if not is_of_requirement(text)]


def judge_for(config: ClusterConfig) -> CheckRequirement:
    """The judge of a configuration; it forgets what was used least recently."""

    @lru_cache(maxsize=REMEMBERED)
    def judge(res_req: str, gpu_req: str, queue: str, slots: int, application: str = "") -> CheckedRequirement:
        return _judge(config, res_req, gpu_req, queue, slots, application)

    return judge


def _judge(
    config: ClusterConfig, res_req: str, gpu_req: str, queue: str, slots: int, application: str
) -> CheckedRequirement:
    profile, below = config.applications.get(application), config.queues[queue]
    texts = (res_req, profile.res_req if profile is not None else "", below.res_req)
    asked, of_profile, of_queue = (parse_any(text, is_increasing=is_increasing(config)) for text in texts)
    for requirement in (asked, of_profile, of_queue):
        check_requirement(requirement, config)
    defaults = _over(of_profile, of_queue, config)
    combined = _combined(_with_methods(asked, config), _with_methods(defaults, config), config)
    check_units(combined.whole, queue, config)
    check_reserved(_combined(asked, of_profile, config).whole if of_profile != NOTHING else asked, queue, config)
    below_job = ("" if profile is None else profile.gpu_req, below.gpu_req)
    gpu = _gpu(gpu_req, below_job, config, _gpu_claims(asked))
    gpu_text = print_gpu(gpu) if gpu is not None else ""
    COMBINED.keep(combined.text, combined.whole)
    if gpu is not None:
        COMBINED_GPU.keep(gpu_text, gpu)
    try:
        return replace(_judged(combined, gpu, gpu_text, slots, config), refuses_gpus=asks_for_none(gpu_req))
    except RequirementError:
        # What is refused there is shown in the combined text, at a place that only the text knows.
        _judged(replace(combined, whole=parse_combined_any(combined.text)), gpu, gpu_text, slots, config)
        raise


def _judged(
    combined: Combined, gpu: GpuRequirement | None, gpu_text: str, slots: int, config: ClusterConfig
) -> CheckedRequirement:
    whole = combined.whole
    tasks = _tasks(whole, slots)
    _check_spread(whole, gpu, slots, gives_unasked=config.params.gpu_unrequested is GpuUnrequested.AUTO)
    per_host, tiling = _per_host(whole)
    warnings = [coded("warning.requirement_ignored", level) for level in combined.ignored]
    warnings += [coded("warning.gpu_duration", name) for name in _gpus_for_a_time(whole)]
    return CheckedRequirement(
        text=combined.text,
        gpu_text=gpu_text,
        choices=tuple(_choices(whole, gpu, slots)),
        warnings=tuple(warnings),
        tasks=tasks,
        wishes=wishes_of(combined.text, gpu_text, tasks or slots),
        per_host=per_host,
        tiling=tiling,
        blocks=_blocks(whole),
        on_one_host=all(part.span is not None and part.span.hosts == 1 for part in simple_parts(whole)),
    )


def _combined(upper: AnyRequirement, lower: AnyRequirement, config: ClusterConfig) -> Combined:
    return combine(upper, lower, is_boolean=lambda name: has_type(config, name, ResourceType.BOOLEAN))


def _over(profile: AnyRequirement, queue: AnyRequirement, config: ClusterConfig) -> AnyRequirement:
    """The requirement of an application profile with its queue's merged in, as a job's is merged with a queue's."""
    if NOTHING in (profile, queue):
        return queue if profile == NOTHING else profile
    return _combined(profile, queue, config).whole


def _with_methods(whole: AnyRequirement, config: ClusterConfig) -> AnyRequirement:
    """ReservationUsage: reservations that name no method get that of their resource, else that of
    RESOURCE_RESERVE_PER_TASK. What hosts share is reserved once for a job unless it says otherwise.
    """
    shared = {name: "job" for name, several in config.shared.items() if several[0].consumable}
    methods = shared | config.reservation_method
    usual = "task" if config.params.reserves_per_task else ""

    def with_method(item: Reservation) -> Reservation:
        return item if item.method else msgspec.structs.replace(item, method=methods.get(canonical(item.name), usual))

    def with_usages(part: Requirement, place: int | None) -> Requirement:
        return with_rusage(part, [tuple(map(with_method, usage)) for usage in part.every_rusage])

    return with_parts(whole, with_usages) if methods or usual else whole


# -- GPUs -------------------------------------------------------------------------------------------------------------


def _gpu_claims(whole: AnyRequirement) -> list[tuple[Reservation, str]]:
    """The claims on GPUs in the rusage of -R, each with the text that it stands in."""
    items = (item for part in simple_parts(whole) for usage in part.every_rusage for item in usage)
    return [(item, whole.source) for item in items if item.amount and is_gpus(item)]


def _gpu(
    job: str, below: tuple[str, str], config: ClusterConfig, claims: Sequence[tuple[Reservation, str]]
) -> GpuRequirement | None:
    """What -gpu and GPU_REQ of profile and queue (`below`) and of the cluster ask together; None when none is asked.

    As in LSF a job whose -R claims GPUs itself (`claims`) is given none by GPU_REQ; with -gpu beside it, it has both.
    """
    params = config.params
    if (not job and (not any(below) or claims)) or asks_for_none(job):
        return None
    for item, source in claims:
        if canonical(item.name) == GPUS_OF_LSF:
            detail = f"-gpu says how many GPUs are wanted and {item.name} does, too: give one of them"
            refuse(detail, source, item.position, BAD_SYNTAX)
    levels = [parse_gpu(text) if text else None for text in (job, *below, params.gpu_req)]
    gpu = merge_gpu(*levels, per_option=params.gpu_req_merge)
    check_gpu(gpu)
    return gpu


def claims_of(gpu: GpuRequirement, number: int) -> dict[str, int]:
    """The counter as which the ledger enters the devices of a -gpu requirement, and how many. Parts of GPUs by MIG are
    in no counter: a layout that has them may come.
    """
    if gpu.mig:
        return {}
    if gpu.mode == "exclusive_process":
        return {"gpu_excl": number}
    return {"gpu_jexcl" if gpu.j_exclusive else "gpu_shared": number}


def _check_spread(whole: AnyRequirement, gpu: GpuRequirement | None, slots: int, *, gives_unasked: bool) -> None:
    """Refuse what says how GPUs spread and would say nothing: gtile without GPUs, a claim per job on several hosts."""
    for part in simple_parts(whole):
        items = [item for usage in part.every_rusage for item in usage if item.amount and is_gpus(item)]
        if part.span is not None and part.span.gtile is not None and not (items or gpu is not None or gives_unasked):
            detail = "span[gtile=...] says how GPUs spread over sockets, and no GPU is asked for"
            refuse(detail, whole.source, part.span.position, BAD_SYNTAX)
        for item in items:
            if item.method == "job" and slots > 1 and (part.span is None or part.span.hosts != 1):
                detail = f"{item.name}={item.amount:.10g}/job: GPUs are claimed per host or per task"
                refuse(detail, whole.source, item.position, BAD_SYNTAX)


def _gpus_for_a_time(whole: AnyRequirement) -> list[str]:
    """GPU resources of rusage that are given a duration. What is on a device while its job runs nobody can know."""
    items = (item for part in simple_parts(whole) for usage in part.every_rusage for item in usage)
    return sorted({item.name for item in items if is_gpus(item) and (item.phases or item.duration_s is not None)})


def is_gpus(item: Reservation) -> bool:
    """Whether the reservation is a claim on GPUs."""
    return canonical(item.name) == GPUS_OF_LSF or canonical(item.name) in gpu_counter_claims()


# -- how tasks spread -------------------------------------------------------------------------------------------------


def _per_host(whole: AnyRequirement) -> tuple[int | None, str]:
    """Most slots on a host by span[ptile] or span[stripe], where that is one number; and how that is written."""
    span = whole.span if isinstance(whole, Requirement) else None
    if span is None or span.ptile_types:
        return None, ""
    if span.stripe:
        return span.stripe, f"span[stripe={span.stripe}]"
    return (span.ptile, f"span[ptile={span.ptile}]") if span.ptile else (None, "")


def _blocks(whole: AnyRequirement) -> tuple[int, ...]:
    """The blocks that the tasks of the whole job come in. Refuses a part of a compound that makes no whole blocks."""
    found = []
    for each in [one.requirement for one in whole.choices] if isinstance(whole, Alternatives) else [whole]:
        if not isinstance(each, Compound):
            found += [each.span.block] if each.span is not None and each.span.block else []
            continue
        for term in each.terms:
            span = term.requirement.span
            if span is not None and span.block and term.count and term.count % span.block:
                detail = f"span[block={span.block}]: {term.count} tasks do not make whole blocks"
                refuse(detail, each.source or whole.source, term.position, BAD_SYNTAX)
    return tuple(found)


# -- what is reserved -------------------------------------------------------------------------------------------------


def _tasks(whole: AnyRequirement, slots: int) -> int | None:
    """Slots that a compound asks for; they must be what -n says, unless -n says nothing."""
    compounds = [whole] if isinstance(whole, Compound) else []
    if isinstance(whole, Alternatives):
        compounds = [each.requirement for each in whole.choices if isinstance(each.requirement, Compound)]
    found: int | None = None
    for compound in compounds:
        tasks = compound.tasks
        counted = sum(term.count or 0 for term in compound.terms)
        if tasks is None and slots == 1:
            tasks = counted + 1  # without -n the last part is of one task
        if tasks is not None and slots not in (1, tasks):
            detail = f"the terms ask for {tasks} tasks, the job for {slots}"
            refuse(detail, compound.source or whole.source, compound.position, BAD_SYNTAX)
        if tasks is None and slots <= counted:
            detail = f"the terms with a number ask for {counted} tasks, the job for {slots}"
            refuse(detail, compound.source or whole.source, compound.position, BAD_SYNTAX)
        found = max(found or 0, tasks or slots)
    return found


def _choices(whole: AnyRequirement, gpu: GpuRequirement | None, slots: int) -> list[ConsumableUses]:
    match whole:
        case Alternatives():
            return [choice for each in whole.choices for choice in _choices(each.requirement, gpu, slots)]
        case Compound():
            return [tuple(_usages(term.requirement, gpu, 1) for term in whole.terms)]
        case _:
            return [(_usages(whole, gpu, slots),)]


def _usages(part: Requirement, gpu: GpuRequirement | None, slots: int) -> tuple[LeastUse, ...]:
    """For each alternative of rusage what a host must have at the least: that of one slot, of all if on one host."""
    on_one_host = part.span is not None and part.span.hosts == 1
    times = slots if on_one_host or slots == 1 else 1
    found = []
    for usage in part.every_rusage:
        amounts: dict[str, float] = {}
        claims: dict[str, int] = {}
        for item in usage:
            name, amount = canonical(item.name), at_start(item) * (times if item.method == "task" else 1)
            if name == GPUS_OF_LSF:  # a queue's; -gpu of the job counts before it
                if amount and gpu is None:
                    claims.update(claims_of(gpu_of(item), int(amount)))
            elif name in gpu_counter_claims() and amount:
                claims[name] = int(amount)
            elif name not in GPU_COUNTERS:
                amounts[name] = amount
        if gpu is not None:
            claims.update(claims_of(gpu, gpu.num * (times if gpu.per == "task" else 1)))
        found.append(LeastUse(amounts, claims))
    return tuple(found)
