"""A job with all that geff tells of it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gsched.base.coded_text import CodedText, coded
from gsched.base.ids import show_job
from gsched.model.efficiency.cost import Cost, Prices, cost_of
from gsched.model.efficiency.job_use import JobUse, asked_of, ended_use, running_use
from gsched.model.efficiency.verdicts import EfficiencyVerdict, Weight, verdicts
from gsched.model.gpus.gpu_use import of_job
from gsched.model.jobs.job import FINISHED
from gsched.model.views.catalogue import Account
from gsched.model.views.view import JobView


class JudgedJob(msgspec.Struct, frozen=True, kw_only=True):
    """`use` is None for a job that never ran."""

    view: JobView
    use: JobUse | None
    verdicts: tuple[EfficiencyVerdict, ...]
    """The gravest first; at least one."""
    gpu_s: float
    """GPU seconds that all its attempts held."""
    energy_j: float | None
    """That all its attempts took; None: unknown of one of their GPUs."""
    prices: Prices = Prices()
    enough: str = ""
    """Options of gsub that would have been enough; empty: nobody knows any that are smaller."""
    gpu_mib: Mapping[str, int] = {}
    """UUID -> memory of the GPUs, of those that are known."""

    @property
    def label(self) -> str:
        """`12` or `12[3]`."""
        return show_job(self.view.job_id)

    @property
    def waited_s(self) -> float | None:
        """Until its last dispatch."""
        at = self.view.dispatched_at
        return None if at is None else max(0.0, at - self.view.submitted_at)

    @property
    def cost(self) -> Cost:
        return cost_of(self.prices, self.gpu_s, self.energy_j)

    def said(self, verdict: EfficiencyVerdict) -> CodedText:
        """The sentence, as of now for a job that runs."""
        is_early = self.use is not None and not self.use.is_over and verdict.weight is not Weight.UNKNOWN
        return coded("efficiency.so_far", verdict.text) if is_early else verdict.text


def judged_account(account: Account, view: JobView, prices: Prices, min_run_s: float) -> JudgedJob:
    """A job that has finished."""
    use = None
    if view.allocation is not None and view.result is not None and view.result.started:
        use = ended_use(asked_of(view.spec, view.allocation), view.result)
    return JudgedJob(
        view=view,
        use=use,
        verdicts=_never("efficiency.never_ran") if use is None else verdicts(use, min_run_s),
        gpu_s=account.gpu_s,
        energy_j=account.gpu_energy_j,
        prices=prices,
    )


def judged_view(view: JobView, now: float, prices: Prices, min_run_s: float) -> JudgedJob:
    """A job as gjobs shows it, which has not ended, or has just."""
    if view.state in FINISHED:
        held_s = _held_s(view, view.finished_at or now)
        uses = view.result.usage.gpus if view.result is not None else ()
        account = Account(
            job_id=view.job_id,
            user=view.spec.user,
            queue=view.spec.queue,
            state=view.state,
            submitted_at=view.submitted_at,
            finished_at=view.finished_at or now,
            gpu_s=held_s,
            gpu_energy_j=of_job(uses, _devices(view)).energy_j,
        )
        return judged_account(account, view, prices, min_run_s)
    if view.allocation is None or view.dispatched_at is None:
        found = _never("efficiency.not_started")
        return JudgedJob(view=view, use=None, verdicts=found, gpu_s=0.0, energy_j=None, prices=prices)
    usage = view.usage
    seen_at = usage.sampled_at if usage is not None else None
    run_s = max(0.0, (seen_at or view.dispatched_at) - view.dispatched_at)
    use = running_use(asked_of(view.spec, view.allocation), usage, run_s)
    return JudgedJob(
        view=view,
        use=use,
        verdicts=verdicts(use, min_run_s),
        gpu_s=_held_s(view, now),
        energy_j=of_job(use.usage.gpus, len(use.gpus)).energy_j,
        prices=prices,
    )


def _never(code: str) -> tuple[EfficiencyVerdict, ...]:
    return (EfficiencyVerdict(Weight.UNKNOWN, coded(code)),)


def _held_s(view: JobView, until: float) -> float:
    if view.allocation is None or view.dispatched_at is None:
        return 0.0
    held = sum(gpu.share for part in view.allocation.hosts for gpu in part.gpus)
    return held * max(0.0, until - view.dispatched_at)


def _devices(view: JobView) -> int:
    return sum(len(part.gpus) for part in view.allocation.hosts) if view.allocation is not None else 0
