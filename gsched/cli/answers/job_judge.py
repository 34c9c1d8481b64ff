"""Jobs with what is to be said of how well they used what they asked for, by what the cluster says: for `geff`."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from gsched.cli.answers.known_gpus import known_gpus
from gsched.cli.render.efficiency.judged_job import JudgedJob, judged_account, judged_view
from gsched.cli.session.call import Call
from gsched.cli.session.session import Session
from gsched.config.parameters.prices import GPU_HOUR, KWH, read_price
from gsched.model.efficiency.cost import Prices
from gsched.model.efficiency.verdicts import MIN_RUN_S
from gsched.model.views.catalogue import Account, AccountFilter
from gsched.model.views.view import JobFilter, JobView

FEW = 500
"""Jobs that the door lays out for a caller; of more all is done in his own process."""
_STARTED = ("RUN", "USUSP", "SSUSP", "UNKWN", "ZOMBI")


class JobJudge:
    """Judges jobs by what the cluster says; each is asked for once, and only where it is needed."""

    def __init__(self, call: Call, session: Session, now: float) -> None:
        self._call, self._session, self._now = call, session, now

    @functools.cached_property
    def _parameters(self) -> dict[str, str]:
        return {each.name: each.value for each in self._session.client.cluster(parameters=True).parameters}

    @functools.cached_property
    def prices(self) -> Prices:
        """The cluster's prices of GPU hours and energy."""
        found = {name: read_price(self._parameters[name]) for name in (GPU_HOUR, KWH) if name in self._parameters}
        gpu_hour, kwh = found.get(GPU_HOUR), found.get(KWH)
        return Prices(
            gpu_hour=None if gpu_hour is None else gpu_hour[0],
            kwh=None if kwh is None else kwh[0],
            currency=next((currency for _, currency in found.values()), ""),
        )

    @functools.cached_property
    def _min_run_s(self) -> float:
        return float(self._parameters.get("EFFICIENCY_MIN_RUN", MIN_RUN_S))

    @functools.cached_property
    def _gives_gpus(self) -> frozenset[str]:
        return frozenset(queue.name for queue in self._session.client.queues() if queue.gpu_req)

    @functools.cached_property
    def _gpu_mib(self) -> dict[str, int]:
        gpus = known_gpus(self._session.client).values()
        parts = [(part.uuid, part.memory_mib) for gpu in gpus for part in gpu.mig_devices]
        return {uuid: mib for uuid, mib in [*((gpu.uuid, gpu.memory_mib) for gpu in gpus), *parts] if mib is not None}

    def finished(self, wanted: AccountFilter) -> Iterator[JudgedJob]:
        """Jobs that have finished; of many the command goes on by itself: to be asked before anything is said."""
        catalogue = self._session.client.catalogue
        accounts: Iterable[Account] | None = None
        if not self._call.own_streams:
            accounts = catalogue.few_accounts(wanted, FEW, jobs=True)
            if accounts is None:
                self._call.take_over()
        return self._judged(catalogue.accounts(wanted, jobs=True) if accounts is None else accounts)

    def _judged(self, accounts: Iterable[Account]) -> Iterator[JudgedJob]:
        for account in accounts:
            if account.job is not None:
                yield judged_account(account, account.job, self.prices, self._min_run_s)

    def running(self, wanted: AccountFilter) -> Iterator[JudgedJob]:
        """Jobs that have started and not ended; its times do not count."""
        told: set[int] = set()
        for user in wanted.users or ("all",):
            for view in self._session.client.jobs(JobFilter(user=user, states=_STARTED)):
                if view.job_id not in told and _is_chosen(view, wanted):
                    told.add(view.job_id)
                    yield judged_view(view, self._now, self.prices, self._min_run_s)

    def unfinished(self, ids: tuple[int, ...]) -> Iterator[JudgedJob]:
        """Of these jobs, those that gjobs knows: unfinished, or finished not long ago."""
        for view in self._session.client.jobs(JobFilter(ids=ids, user="all", finished=True)):
            yield judged_view(view, self._now, self.prices, self._min_run_s)

    def completed(self, job: JudgedJob) -> JudgedJob:
        """With all that is shown of it: what would have been enough, and the memory of its GPUs."""
        view, use = job.view, job.use
        if use is None or view.allocation is None:
            return job
        job = replace(job, gpu_mib=self._gpu_mib if use.gpus else {})
        if use.run_s < self._min_run_s:
            return job
        from gsched.model.efficiency.smaller_request import enough  # only now: requirements take long to import

        is_given = bool(use.gpus) and self._is_given(job)
        return replace(job, enough=enough(use, view.spec, view.allocation, gets_gpus_unasked=is_given))

    def _is_given(self, job: JudgedJob) -> bool:
        """Whether a job that asks for no GPU gets some there."""
        spec = job.view.spec
        is_auto = self._parameters.get("GPU_UNREQUESTED", "").startswith("auto")
        return bool(spec.application) or is_auto or spec.queue in self._gives_gpus


def _is_chosen(view: JobView, wanted: AccountFilter) -> bool:
    hosts = [part.host for part in view.allocation.hosts] if view.allocation is not None else []
    chosen = (
        (wanted.queues, [view.spec.queue]),
        (wanted.projects, [view.spec.project]),
        (wanted.hosts, hosts),
    )
    return all(not names or not set(names).isdisjoint(own) for names, own in chosen)
