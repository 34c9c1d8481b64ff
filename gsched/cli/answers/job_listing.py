"""The jobs of one `gjobs`, as they arrive: asked for, chosen, and with what the layout needs of each beside its view.

It prints nothing, and asks the master once for what belongs to all jobs.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

from gsched.base.ids import array_of, index_of
from gsched.cli.answers.exceptions_of_jobs import JobExceptions
from gsched.cli.answers.job_thresholds import JobThresholds
from gsched.cli.answers.known_gpus import known_gpus
from gsched.cli.host_answers.cpu_factors import CpuFactors
from gsched.cli.options.job_filters import chosen_filter
from gsched.cli.options.job_selection import not_found
from gsched.cli.options.past_time import looked_at, since_when
from gsched.cli.options.size_units import unit_of
from gsched.cli.render.jobs.job_devices import affinity_units, gpus_of
from gsched.cli.render.jobs.job_fields import EXCEPTION_STATUS
from gsched.cli.render.jobs.shown_job import ShownJob
from gsched.cli.session.call import Call
from gsched.cli.session.master_links import folder_of
from gsched.cli.session.session import Session
from gsched.cli.session.time_zone import zone_of
from gsched.dialect.host_lists import host_file_of
from gsched.dialect.options import Parsed
from gsched.model.hosts.host import Gpu
from gsched.model.views.catalogue import MOST_NAMED, AccountFilter
from gsched.model.views.view import JobFilter, JobView
from gsched.wire.web_address import web_address

PENDING_KINDS = ("pe", "pi", "pei", "plan")
"""Options that choose among pending jobs by why they wait."""


class JobListing:
    """The jobs of one question, turned into records while they arrive: there may be a hundred thousand."""

    def __init__(
        self,
        call: Call,
        options: Parsed,
        session: Session,
        wanted: JobFilter,
        *,
        level: int,
        fields: frozenset[str] = frozenset(),
        at: float | None = None,
        eligible: bool | None = None,
    ) -> None:
        """`level`: how much of pending reasons is told; `fields`: those of -o; `at`: jobs as they were then;
        `eligible`: only pending jobs that are, or are not; None: as the options say.
        """
        self.at = at
        self.now = time.time() if at is None else at
        self._named = wanted.ids
        self._is_long = options.has("l", "UF")
        self._with_affinity = options.has("aff")
        self._with_host_file = options.has("hostfile")
        self._with_gpus = options.has("gpu")
        self._only_gpus = self._with_gpus and (options.has("json") or not self._is_long)
        self._gpus: dict[str, Gpu] = {}
        self._level = level
        self._unit = unit_of(call)
        self._zone = zone_of(call.env)
        self._client = session.client
        self._look = looked_at(session, at)
        self._folder = folder_of(call)
        self._call = call
        self._normal = options.last("N")
        self._views = itertools.chain(self._look.jobs(wanted), self._long_finished())
        self._admits = chosen_filter(options)
        self._eligible = _eligible(options) if eligible is None else eligible
        self._only_planned = options.has("plan")
        self._only_exceptions = options.has("x")
        self._with_exceptions = self._is_long or self._only_exceptions or EXCEPTION_STATUS in fields
        self._found: set[int] = set()
        self.count = 0

    def _long_finished(self) -> Iterator[JobView]:
        """With -l: of the jobs that were named and not found those that the history knows."""
        missing = tuple(job_id for job_id in self._named if job_id not in self._found)
        if self._is_long and missing and self.at is None:
            for account in self._client.catalogue.accounts(AccountFilter(ids=missing[:MOST_NAMED]), jobs=True):
                if account.job is not None:
                    yield account.job

    def records(self) -> Iterator[ShownJob]:
        """To be gone through once."""
        external: tuple[str, ...] | None = None
        thresholds: JobThresholds | None = None
        factors = CpuFactors(self._call, self._client, self._normal) if self._normal else None
        exceptions = JobExceptions(self._look.queues(), self.now) if self._with_exceptions else None
        for view in self._views:
            self._found.update((view.job_id, array_of(view.job_id)))
            if not self._admits(view) or (self._only_gpus and not _has_gpus(view)):
                continue
            if self._only_planned and view.planned is None:
                continue
            shown = exceptions.of(view) if exceptions is not None else ()
            if self._only_exceptions and not shown:
                continue
            if self._eligible is not None and ShownJob(view=view).is_ineligible is self._eligible:
                continue
            self.count += 1
            if self._is_long and thresholds is None:
                external = self._look.cluster().external_resources
                thresholds = JobThresholds(self._client, self._look)
            yield ShownJob(
                view=factors.scaled(view) if factors is not None else view,
                external_indices=external or (),
                level=self._level,
                with_hosts=self._is_long,
                unit=self._unit,
                zone=self._zone,
                now=self.now if self._is_long else None,
                thresholds=thresholds.of(view) if thresholds is not None else {},
                exceptions=shown,
                judges_idle=exceptions is not None and exceptions.judges_idle(view),
                affinity=affinity_units(view) if self._with_affinity else None,
                host_file=host_file_of(view.spec) if self._with_host_file else {},
                gpus_held=gpus_of(view, self._known_gpus()) if self._with_gpus else (),
                web_address=web_address(self._folder) if self._is_long and view.spec.service else "",
            )

    def _known_gpus(self) -> dict[str, Gpu]:
        """Of all hosts, by UUID; asked for once."""
        if not self._gpus:
            self._gpus = known_gpus(self._look)
        return self._gpus

    def missing(self) -> list[int]:
        """Jobs that were named and not found, once all records have been gone through."""
        return [job_id for job_id in self._named if job_id not in self._found]

    def why_missing(self) -> str:
        """A line for each of them; an index is told apart from a job that is no array."""
        lines = []
        for job_id in self.missing():
            is_plain = index_of(job_id) and any(
                job.job_id == array_of(job_id)
                for job in self._look.jobs(JobFilter(ids=(array_of(job_id),), finished=True))
            )
            lines.append(f"Job <{array_of(job_id)}> is not a job array\n" if is_plain else not_found([job_id]))
        if lines and self._is_long and self.at is None:
            lines.append(since_when(self._client.past.kept(), self._zone))
        return "".join(dict.fromkeys(lines))


def _has_gpus(view: JobView) -> bool:
    return view.allocation is not None and any(part.gpus for part in view.allocation.hosts)


def _eligible(options: Parsed) -> bool | None:
    """True: -pe; False: -pi; the last of them counts; None: neither."""
    return next((name == "pe" for name, _ in reversed(options.given) if name in ("pe", "pi")), None)
