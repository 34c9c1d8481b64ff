"""The tools that only read: jobs, why they wait, hosts, queues, history, efficiency, output. They change nothing."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Literal

from typing_extensions import TypedDict

from gsched.api.cluster import Cluster
from gsched.base.errors import BadRequest
from gsched.base.ids import show_job
from gsched.cli.options.job_selection import parse_job_ids
from gsched.cli.render.explaining.comparison_json import comparison_record
from gsched.cli.render.explaining.explanation_json import explanation_record
from gsched.mcp.asked_submissions import asked_submission
from gsched.mcp.command_runs import MOST_OUTPUT, json_of, text_of
from gsched.mcp.job_facts import (
    HostFacts,
    JobFacts,
    QueueFacts,
    host_facts,
    job_facts,
    queue_facts,
)
from gsched.model.views.view import JobView

MOST_JOBS = 500
"""Jobs that one answer has at most."""
State = Literal["PEND", "PSUSP", "RUN", "USUSP", "SSUSP", "DONE", "EXIT", "UNKWN", "ZOMBI"]


class FoundJobs(TypedDict):
    """Some jobs, and whether there are more."""

    jobs: list[JobFacts]
    more: bool


class FoundHosts(TypedDict):
    """Hosts with their GPUs."""

    hosts: list[HostFacts]


class FoundQueues(TypedDict):
    """Queues, the highest priority first."""

    queues: list[QueueFacts]


class ReadingTools:
    """Each public method is a tool; its docstring is what the assistant is told of it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def all(self) -> list[Callable[..., Any]]:
        """The tools."""
        return [
            *(
                self.list_jobs,
                self.show_job,
                self.explain_job,
                self.compare_jobs,
                self.dry_run_job,
                self.list_hosts,
                self.list_queues,
                self.job_history,
                self.past_jobs,
            ),
            *(self.job_efficiency, self.job_output),
        ]

    def list_jobs(
        self, user: str = "", queue: str = "", states: Sequence[State] = (), name: str = "", limit: int = 50
    ) -> FoundJobs:
        """Jobs that have not ended, with the reasons of those that wait and the GPUs of those that run.

        `user` empty: your own; "all": everybody's. `states` DONE and EXIT: those that ended a short while ago; see
        past_jobs for older ones. `name` may hold `*`. At most `limit` (500).
        """
        found = self._cluster.jobs(
            user=user, queue=queue, states=states, name=name, finished=bool({"DONE", "EXIT"} & set(states))
        )
        return _some(found, limit)

    def show_job(self, job: str) -> str:
        """Everything about one job, as `gjobs -l` shows it: `job` is its number, 12 or 12[3] for an array's element."""
        return text_of(["gjobs", "-l", _number(job)], self._cluster.folder)

    def explain_job(self, job: str) -> dict[str, Any]:
        """Why a job waits: the reasons with their numbers, hosts by reason with the jobs and users that hold what it
        needs, when it is expected to start and what that rests on, by when half of such jobs start (p50) and nine in
        ten (p90), and the smallest changes that would start it now.
        """
        return explanation_record(self._cluster.client().explain(one_job(job)))

    def compare_jobs(self, waiting: str, other: str) -> dict[str, Any]:
        """Why job `waiting` waits although job `other` runs, or which of two jobs that wait is served first: the first
        rule that decides (queue priority, fairshare, limits, backfill, ...), with the numbers of both jobs.
        """
        return comparison_record(self._cluster.client().why_not(one_job(waiting), one_job(other)))

    def dry_run_job(self, command: str, options: Sequence[str] = ()) -> dict[str, Any]:
        """What would become of a job that is not submitted: where it would start and with which GPUs, or why it would
        wait, until when, and what would start it now; what it takes of limits and budgets. Changes nothing. What would
        be refused is an error with the reason.

        `command` is a line for the shell. `options` are those of gsub (bsub), a word each: ["-gpu", "num=2", "-W",
        "2:00", "-q", "short"].
        """
        told = asked_submission(command, options, self._cluster.folder).dry_run("--json")
        found: dict[str, Any] = json.JSONDecoder().raw_decode(told)[0]  # warnings may follow
        return found

    def list_hosts(self, names: Sequence[str] = ()) -> FoundHosts:
        """Hosts with their slots and GPUs: which jobs hold each GPU, how busy it is, what is wrong with it."""
        return FoundHosts(hosts=[host_facts(each) for each in self._cluster.hosts(*names)])

    def list_queues(self, names: Sequence[str] = ()) -> FoundQueues:
        """Queues with their priorities, limits and numbers of jobs."""
        return FoundQueues(queues=[queue_facts(each) for each in self._cluster.queues(*names)])

    def job_history(self, job: str) -> str:
        """What has happened to a job, oldest first, as `ghist -l` shows it; also of one that ended long ago."""
        return text_of(["ghist", "-l", _number(job)], self._cluster.folder)

    def past_jobs(
        self,
        user: str = "",
        queue: str = "",
        states: Sequence[Literal["DONE", "EXIT"]] = (),
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 50,
    ) -> FoundJobs:
        """Jobs that have ended, however long ago. `since` and `until` are ISO 8601: when they ended.

        `user` empty: your own; "all": everybody's. At most `limit` (500).
        """
        return _some(self._cluster.history(user=user, queue=queue, states=states, since=since, until=until), limit)

    def job_efficiency(self, job: str) -> dict[str, Any]:
        """How well an ended job used its GPUs, CPUs and memory, and what a better request would be (`geff -json`)."""
        return json_of(["geff", "-json", _number(job)], self._cluster.folder)

    def job_output(self, job: str, last_bytes: int = 8_000) -> str:
        """The end of what a job has written to its standard output, while it runs or afterwards."""
        if not 0 < last_bytes <= MOST_OUTPUT:
            raise BadRequest(f"last_bytes is 1 to {MOST_OUTPUT}")
        return self._cluster.job(one_job(job)).output()[-last_bytes:]


def one_job(job: str) -> int:
    """The number of a job, `12` or `12[3]`. Raises BadRequest."""
    found = parse_job_ids([job.strip()])
    if len(found) != 1 or not found[0]:
        raise BadRequest(f"{job[:40]!r} names no single job: give a number, 12 or 12[3]")
    return found[0]


def _number(job: str) -> str:
    """The job's number as commands take it; nothing else of what an assistant says becomes a word of a command."""
    return show_job(one_job(job))


def _some(found: Iterable[JobView], limit: int) -> FoundJobs:
    if not 0 < limit <= MOST_JOBS:
        raise BadRequest(f"limit is 1 to {MOST_JOBS}")
    jobs = [job_facts(view) for view in itertools.islice(found, limit + 1)]
    return FoundJobs(jobs=jobs[:limit], more=len(jobs) > limit)
