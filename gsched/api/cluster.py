"""A running cluster, as Python programs use it. It is found as the commands find theirs; threads may share one.

It belongs to the process that made it: gRPC's connections do not survive a fork.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, as_completed, wait
from datetime import datetime
from typing import Unpack, cast

import grpc

from gsched.api.job import Job
from gsched.api.named import NamesJob, number_of, numbers_of
from gsched.api.options import refuses_unknown_options
from gsched.api.past_jobs import ArchiveFolders, account_filters, history, states_of, views
from gsched.api.progress_bar import with_bar
from gsched.api.request import JobRequest, RequestReader, SubmitOptions
from gsched.api.shared_clusters import shared_cluster
from gsched.api.values import members, one_text, path, seconds, truth, whole
from gsched.api.waiting import Waiting, not_finished
from gsched.base.coded_text import sentence
from gsched.base.envdir import conf_dir, read_setting
from gsched.base.errors import BadRequest, GschedError, Unavailable
from gsched.model.views.explanation import JobDryRun, JobExplanation
from gsched.model.views.job_comparison import JobComparison
from gsched.model.views.view import EventRecord, HostView, JobEnd, JobFilter, JobView, QueueView, Submitted
from gsched.wire.calls.client import Client
from gsched.wire.calls.retry_policy import WAIT_VARIABLE, read_wait
from gsched.wire.calls.transports import way_to_master
from gsched.wire.identity.caller_identity import user_name
from gsched.wire.messages.control_action import ControlAction


class Cluster:
    """A connection to the master of one cluster; `with Cluster() as cluster:` closes it in the end.

    `folder`: its configuration folder; as for the commands without: GSCHED_ENVDIR, LSF_ENVDIR, ~/.gsched/conf,
    /etc/gsched. `wait`: seconds to wait for a master that does not answer (GSCHED_COMMAND_WAIT, 60). Raises Unavailable
    when no cluster is known there.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None, *, wait: float | None = None) -> None:
        self.folder = os.path.abspath(conf_dir(os.environ) if folder is None else path("folder", folder))
        wait = seconds("wait", wait)
        way = way_to_master(self.folder)
        self.address = way.address
        if wait is None:
            wait = read_wait(os.environ.get(WAIT_VARIABLE, "") or read_setting(self.folder, WAIT_VARIABLE))
        self._channel = way.channel()
        self._wait_s = wait
        self._client = self._client_by(self._channel)
        self._waiting = Waiting(self._channel, self._client_by)
        self._process = os.getpid()
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<gsched.Cluster {self.folder}>"

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection; jobs go on. Who still waits in another thread gets Unavailable."""
        if self._is_closed or os.getpid() != self._process:
            return
        self._is_closed = True
        self._waiting.close()
        self._client.close()
        self._channel.close()

    @classmethod
    def shared(cls, folder: str) -> Cluster:
        """The one connection of this process that all jobs of that folder have which came from another process. Raises
        Unavailable when no cluster is known there.
        """
        return shared_cluster(folder, cls)

    @property
    def is_usable(self) -> bool:
        """Whether it is not closed, and of this process."""
        return not self._is_closed and os.getpid() == self._process

    def client(self) -> Client:
        """The client of the master's protocol behind it; that may change, this class does not."""
        if self._is_closed:
            raise Unavailable(f"this Cluster ({self.folder}) is closed")
        if os.getpid() != self._process:
            raise BadRequest(f"this Cluster was made by process {self._process}: make one in each process after a fork")
        return self._client

    def channel(self) -> grpc.Channel:
        """The connection behind the client. Raises as `client`."""
        self.client()
        return self._channel

    def by(self, channel: grpc.Channel) -> Cluster:
        """This one, with calls that go by another view of its connection; it is closed with this one."""
        seen = copy.copy(self)
        seen._channel, seen._client = channel, self._client_by(channel)
        return seen

    def _client_by(self, channel: grpc.Channel) -> Client:
        return Client(self.address, wait_s=self._wait_s, channel=channel)

    # Submitting

    def submit(
        self,
        command: str | os.PathLike[str] | Sequence[str | os.PathLike[str] | float] = (),
        **options: Unpack[SubmitOptions],
    ) -> Job:
        """Submit a job (with `array=` an array of them); returns once it is on disk.

        `command` is a line for the shell or a list of words. Raises BadRequest and its kin with the master's reason.
        """
        return self._submit([_request(command, options)])[0]

    def submit_many(
        self,
        jobs: Iterable[str | os.PathLike[str] | Sequence[str | os.PathLike[str] | float] | JobRequest],
        **options: Unpack[SubmitOptions],
    ) -> list[Job]:
        """Submit all of the jobs or none, in one step; returns once they are on disk.

        Each is a command, or a dict with a command and what differs from `options`, which hold for all.
        """
        return self._submit([_request(job, options) for job in members("jobs", jobs, "a list of jobs")])

    def _submit(self, requests: Sequence[JobRequest]) -> list[Job]:
        client = self.client()
        if not requests:
            return []
        desk = RequestReader(self.folder)
        submissions = []
        for place, request in enumerate(requests):
            try:
                submissions.append(desk.submission(request))
            except GschedError as error:
                if len(requests) == 1:
                    raise
                raise type(error)(f"jobs[{place}]: {error.text}") from None
        try:
            submitted = client.submit_many(submissions)
        except GschedError as error:
            if len(requests) == 1 and (where := desk.place(error)):
                raise type(error)(f"{where}: {error.text}") from None
            raise
        return [self._handle(each) for each in submitted]

    def _handle(self, submitted: Submitted) -> Job:
        return Job(self, submitted.job_id, queue=submitted.queue, warnings=tuple(map(sentence, submitted.warnings)))

    def dry_run(
        self,
        command: str | os.PathLike[str] | Sequence[str | os.PathLike[str] | float] = (),
        **options: Unpack[SubmitOptions],
    ) -> JobDryRun:
        """What would become of the job that `submit` would submit with these options: where it would start now, or why
        it would wait, until when, and what would start it at once. Raises what `submit` would raise.
        """
        client, desk = self.client(), RequestReader(self.folder)
        spec = desk.submission(_request(command, options)).spec
        try:
            return client.dry_run(spec)
        except GschedError as error:
            if where := desk.place(error):
                raise type(error)(f"{where}: {error.text}") from None
            raise

    # Asking

    def explain(self, job: NamesJob) -> JobExplanation:
        """Why a job waits, who is in its way, until when, and what would start it now.

        Raises NotFound, and Conflict for a job that does not wait.
        """
        return self.client().explain(number_of(job))

    def why_not(self, job: NamesJob, other: NamesJob) -> JobComparison:
        """Why `job` waits and `other` runs, or which of the two stands before the other: the rule that decides, with
        the numbers of both. Raises NotFound, Conflict where `job` does not wait or `other` is over, and BadRequest
        where they are the same.
        """
        return self.client().why_not(number_of(job), number_of(other))

    def job(self, job: NamesJob) -> Job:
        """The handle of a job that is known by its number, or by what a query answered. Whether it exists is found
        out when it is used.
        """
        return Job(self, number_of(job))

    @refuses_unknown_options
    def jobs(  # noqa: PLR0913 - the options of a call that people write
        self,
        *,
        ids: Iterable[NamesJob] | NamesJob = (),
        user: str = "",
        queue: str = "",
        name: str = "",
        project: str = "",
        group: str = "",
        host: str = "",
        states: str | Iterable[str] = (),
        finished: bool = False,
    ) -> Iterator[JobView]:
        """Jobs as of now, in the order gjobs shows them, read while they arrive. Without `user` one's own; "all" means
        everybody's. `name` may hold `*`; `finished`: also those that ended within CLEAN_PERIOD.
        """
        numbers = tuple(numbers_of("ids", ids))
        wanted = JobFilter(
            ids=numbers,
            user=one_text("user", user) or ("all" if numbers else user_name(os.getuid())),
            queue=one_text("queue", queue),
            name=one_text("name", name),
            project=one_text("project", project),
            group=one_text("group", group),
            host=one_text("host", host),
            states=states_of(states),
            finished=truth("finished", finished) or bool(numbers),
        )
        return self.client().jobs(wanted)

    @refuses_unknown_options
    def history(
        self,
        *,
        ids: Iterable[NamesJob] | NamesJob = (),
        user: str = "",
        queue: str = "",
        project: str = "",
        states: str | Iterable[str] = (),
        since: datetime | None = None,
        until: datetime | None = None,
        archive: ArchiveFolders = (),
    ) -> Iterator[JobView]:
        """Finished jobs by number, however long ago that was, read while they arrive. Without `user` one's own, "all"
        means everybody's; `since` and `until`: those that ended in that time. `archive`: folders of archives that are
        read instead, as by `gsched.history`. See also `Job.history`.
        """
        if archive:
            yield from history(
                archive, ids=ids, user=user, queue=queue, project=project, states=states, since=since, until=until
            )
            return
        client = self.client()
        for wanted in account_filters(ids, user, queue, project, states, since, until):
            yield from views(client.catalogue, wanted)

    def hosts(self, *names: str) -> list[HostView]:
        """All hosts, or the named ones. Raises NotFound."""
        return self.client().hosts([one_text("a host", name) for name in names])

    def queues(self, *names: str) -> list[QueueView]:
        """All queues by descending priority, or the named ones. Raises NotFound."""
        return self.client().queues([one_text("a queue", name) for name in names])

    @refuses_unknown_options
    def events(
        self, *, follow: bool = True, after: int | None = None, jobs: Iterable[NamesJob] | NamesJob = ()
    ) -> Iterator[EventRecord]:
        """What happens, as it is committed: `kind`, `at`, `job_id`, and `payload`, JSON with the rest.

        With `follow` for ever, from this call on; else what has happened until now. `after`: from behind the event with
        this `seq` on (0: from the first). Nothing is left out, also when the master restarts.
        """
        client = self.client()
        numbers = numbers_of("jobs", jobs)
        follows = truth("follow", follow)
        if after is None:
            after = client.last_event() if follows else 0
        return client.events(whole("after", after), follow=follows, job_ids=numbers)

    # Waiting

    @refuses_unknown_options
    def futures(self, jobs: Iterable[NamesJob] | NamesJob) -> list[Future[JobEnd]]:
        """A future of each job's end."""
        self.client()
        return self._waiting.futures(numbers_of("jobs", jobs))

    @refuses_unknown_options
    def wait(self, jobs: Iterable[NamesJob] | NamesJob, timeout: float | None = None) -> list[JobEnd]:
        """Wait until all have finished, whether well or not; returns their ends in that order.

        Raises TimeoutError that names jobs which have not, NotFound.
        """
        numbers, timeout = numbers_of("jobs", jobs), seconds("timeout", timeout)
        futures = self.futures(numbers)
        done, still = wait(futures, timeout)
        if still:
            left = [number for number, future in zip(numbers, futures, strict=True) if future not in done]
            raise not_finished(left, timeout)
        return [future.result() for future in futures]

    @refuses_unknown_options
    def as_completed(
        self, jobs: Iterable[NamesJob] | NamesJob, timeout: float | None = None
    ) -> Iterator[tuple[Job, JobEnd]]:
        """Each job with its end, in the order in which they finish. Raises TimeoutError, NotFound."""
        timeout = seconds("timeout", timeout)
        many = [jobs] if isinstance(jobs, Job) else members("jobs", jobs, "a list of jobs")
        handles = [each if isinstance(each, Job) else self.job(each) for each in many]
        by_future = dict(zip(self.futures(handles), handles, strict=True))
        try:
            for future in as_completed(by_future, timeout):
                yield by_future[future], future.result()
        except TimeoutError:
            left = [job.id for future, job in by_future.items() if not future.done()]
            raise not_finished(left, timeout) from None

    @refuses_unknown_options
    def progress(
        self, jobs: Iterable[NamesJob] | NamesJob, timeout: float | None = None
    ) -> Iterator[tuple[Job, JobEnd]]:
        """As `as_completed`, with a bar of tqdm that counts the ends and failures, in a terminal (standard error) or a
        notebook. Raises GschedError where tqdm is not installed (gsched[progress]).
        """
        return with_bar(self, jobs, timeout)

    # Doing something to many

    @refuses_unknown_options
    def kill(self, jobs: Iterable[NamesJob] | NamesJob, signal: int = 0) -> dict[int, str]:
        """End the jobs, or send them a signal; returns those it could not be done to, with the reason."""
        return self._control("kill" if not signal else "signal", jobs, signal)

    @refuses_unknown_options
    def stop(self, jobs: Iterable[NamesJob] | NamesJob) -> dict[int, str]:
        """Suspend the jobs; returns those it could not be done to, with the reason."""
        return self._control("stop", jobs)

    @refuses_unknown_options
    def resume(self, jobs: Iterable[NamesJob] | NamesJob) -> dict[int, str]:
        """Let the jobs go on; returns those it could not be done to, with the reason."""
        return self._control("resume", jobs)

    def _control(self, action: str, jobs: Iterable[NamesJob] | NamesJob, signal: int = 0) -> dict[int, str]:
        numbers = numbers_of("jobs", jobs)
        if not numbers:
            return {}  # without numbers the master would take them all
        answers = self.client().control(ControlAction(action=action, signal=whole("signal", signal)), numbers)
        return {answer.job_id: answer.error for answer in answers if answer.error}


def _request(job: object, options: SubmitOptions) -> JobRequest:
    if isinstance(job, Mapping):
        return cast(JobRequest, {**options, **job})
    return cast(JobRequest, {**options, "command": job})
