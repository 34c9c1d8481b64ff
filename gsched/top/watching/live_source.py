"""Looks at a living cluster, in threads of its own: one follows the master's committed events and notes which jobs they
are about, one asks for those jobs, for hosts and for queues.

It rests in proportion to what its questions cost, and keeps MOST_JOBS jobs. While the master does not answer, the last
look stays and `away_since` says since when; it goes on by itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from gsched.base.errors import Conflict, GschedError
from gsched.base.ids import job_order
from gsched.model.jobs.job import FINISHED
from gsched.model.views.view import Control, JobFilter, JobView
from gsched.top.watching.look import ClusterLook, JobLook, host_looks, job_look, queue_looks
from gsched.wire.calls.changed_jobs import NotedChanges, jobs_named, meant_by
from gsched.wire.calls.client import Client
from gsched.wire.calls.retried_calls import Cancellable
from gsched.wire.calls.transports import way_to_master

MOST_JOBS = 20_000
"""Jobs that are kept: those that have not ended before those that have, and of these the newest."""
MOST_NOTED = 2_000
"""Jobs that have changed and are asked for by number; of more all jobs are asked for."""
HOSTS_EVERY_S = 5.0
"""What hosts report makes no event."""
ALL_EVERY_S = 600.0
"""The master forgets finished jobs without an event."""
SHORTEST_S = 1.0
AGAIN_S = 1.0
_PROPORTION = 4.0
"""It rests at least so many times as long as its last questions took."""
WAIT_S = 5.0
"""How long a question waits for a master that does not answer."""

Tell = Callable[[], object]


@contextmanager
def client_of(conf_dir: str) -> Iterator[Client]:
    """A client of the cluster whose configuration is there, private or shared. Raises Unavailable, BadRequest."""
    way = way_to_master(conf_dir)
    channel = way.channel()
    try:
        yield Client(way.address, wait_s=WAIT_S, channel=channel)
    finally:
        channel.close()


class LiveSource:
    """`me`: whose jobs are "mine"."""

    def __init__(self, conf_dir: str, me: str) -> None:
        self._conf_dir, self._me = conf_dir, me
        self._jobs: dict[int, JobLook] = {}
        self._is_cut = False
        self._noted = NotedChanges(MOST_NOTED)
        self._lock = threading.Lock()
        self._due, self._stopping = threading.Event(), threading.Event()
        self._following: Cancellable | None = None
        self._tell: Tell = lambda: None
        # gRPC ends its threads with a process's last connection, and once died of it where others were opened then.
        self._held = ExitStack()
        self.look: ClusterLook | None = None
        self.away_since: float | None = None

    def ask(self) -> ClusterLook:
        """A first look, or one alone; its connection stays until `stop`. Raises GschedError."""
        return self._ask(self._held.enter_context(client_of(self._conf_dir)))

    def start(self, tell: Tell) -> None:
        """Go on in the background; `tell` is called, in another thread, when there is something new."""
        self._tell = tell
        for work in (self._follow, self._keep):
            threading.Thread(target=self._again_and_again, args=(work,), name=work.__name__, daemon=True).start()

    def stop(self) -> None:
        """Ask nothing more."""
        self._stopping.set()
        self._due.set()
        if self._following is not None:
            self._following.cancel()
        self._held.close()

    def kill(self, job_id: int) -> list[Control]:
        """As gkill does it. Raises GschedError; it waits for the master."""
        with client_of(self._conf_dir) as client:
            return client.control("kill", (job_id,))

    @contextmanager
    def client(self) -> Iterator[Client]:
        """For other questions. Raises GschedError."""
        with client_of(self._conf_dir) as client:
            yield client

    def _again_and_again(self, work: Callable[[Client], None]) -> None:
        while not self._stopping.is_set():
            with suppress(GschedError), client_of(self._conf_dir) as client:
                work(client)
            self._stopping.wait(AGAIN_S)

    # -- events ---------------------------------------------------------------------------------------------------

    def _follow(self, client: Client) -> None:
        after = client.last_event()
        self._note_all()
        self._following = client.following()
        if self._stopping.is_set():
            return
        with suppress(Conflict):  # too slow: the next round asks for all
            for record in client.events(after, follow=True, ended_by=self._following):
                self._note(record.job_id)

    def _note(self, job_id: int) -> None:
        with self._lock:
            if job_id:
                self._noted.add(job_id)
        self._due.set()

    def _note_all(self) -> None:
        with self._lock:
            self._noted.add_all()
        self._due.set()

    # -- questions ------------------------------------------------------------------------------------------------

    def _keep(self, client: Client) -> None:
        all_at = time.monotonic() + ALL_EVERY_S
        while not self._stopping.is_set():
            self._due.wait(HOSTS_EVERY_S)
            self._due.clear()
            began = time.monotonic()
            if began >= all_at:
                self._note_all()
                all_at = began + ALL_EVERY_S
            try:
                self._ask(client)
            except GschedError:
                self._gone()
                raise
            self.away_since = None
            self._tell()
            self._stopping.wait(max(SHORTEST_S, _PROPORTION * (time.monotonic() - began)))

    def _gone(self) -> None:
        self._note_all()
        if self.away_since is None and not self._stopping.is_set():
            self.away_since = time.time()
            self._tell()

    def _ask(self, client: Client) -> ClusterLook:
        with self._lock:
            noted, is_all = self._noted.take()
        if is_all:
            self._ask_all(client)
        elif noted:
            self._ask_some(client, noted)
        hosts, queues, cluster = client.hosts(), client.queues(), client.cluster()
        jobs = tuple(sorted(self._jobs.values(), key=lambda job: job_order(job.job_id)))
        user_of = {job.job_id: job.user for job in jobs}
        self.look = ClusterLook(
            at=time.time(),
            me=self._me,
            cluster=cluster.cluster,
            hosts=host_looks(hosts, self._me, user_of),
            jobs=jobs,
            queues=queue_looks(queues),
            is_cut=self._is_cut,
        )
        return self.look

    def _ask_all(self, client: Client) -> None:
        self._is_cut, self._jobs = False, {}
        self._take(client.jobs(JobFilter(user="all", finished=True)))

    def _ask_some(self, client: Client, numbers: Collection[int]) -> None:
        """An array's number means all its elements."""
        for job_id in meant_by(numbers, self._jobs):
            del self._jobs[job_id]
        self._take(jobs_named(client, numbers))

    def _take(self, views: Iterable[JobView]) -> None:
        for view in views:
            self._jobs[view.job_id] = job_look(view)
            if len(self._jobs) >= 2 * MOST_JOBS:
                self._thin_out()
        self._thin_out()

    def _thin_out(self) -> None:
        if len(self._jobs) <= MOST_JOBS:
            return
        kept = sorted(self._jobs.values(), key=_importance)[:MOST_JOBS]
        self._is_cut = True
        self._jobs = {job.job_id: job for job in kept}


def _importance(job: JobLook) -> tuple[bool, float]:
    return job.state in FINISHED, -(job.finished_at or 0.0)
