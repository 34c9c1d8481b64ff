"""The cluster as it was told last: filled once, then kept up by the master's committed events.

Three threads: one follows events and notes which jobs they are about, one asks for those jobs anew, one asks for hosts
and queues. Each rests in proportion to what its questions cost. While the master is away, what was known stays, and
`away_since` says so.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection

from gsched.base.errors import Conflict, GschedError
from gsched.model.views.view import ClusterView, HostView, JobFilter, QueueView
from gsched.web.mirror.change_hub import CLUSTER, JOBS, ChangeHub
from gsched.web.mirror.cluster_load import ClusterLoad
from gsched.web.mirror.gpu_samples import GpuSamples
from gsched.web.mirror.job_rows import MirroredJob, row_of
from gsched.wire.calls.changed_jobs import NotedChanges, jobs_named, meant_by
from gsched.wire.calls.client import Client
from gsched.wire.calls.retried_calls import Cancellable

log = logging.getLogger(__name__)

MOST_NOTED = 5_000
"""Jobs that have changed and are asked for by number; of more all jobs are asked for."""
HOSTS_EVERY_S = 5.0
ALL_EVERY_S = 600.0
"""So often all jobs are asked for, whatever was told: the master forgets finished ones without an event."""
SOON_S = 0.25
AGAIN_S = 1.0
_PROPORTION = 4.0
"""A thread rests at least so many times as long as its last question took."""


class ClusterMirror:
    """`connect` makes a client for each thread; `hub` is told of changes."""

    def __init__(self, connect: Callable[[], Client], hub: ChangeHub) -> None:
        self._connect = connect
        self._hub = hub
        self._rows: dict[int, MirroredJob] = {}
        self._noted = NotedChanges(MOST_NOTED)
        self._lock = threading.Lock()
        self._jobs_due = threading.Event()
        self._hosts_due = threading.Event()
        self._stopping = threading.Event()
        self._following: Cancellable | None = None
        self.hosts: tuple[HostView, ...] = ()
        self.queues: tuple[QueueView, ...] = ()
        self.cluster = ClusterView(cluster="", master_host="", version="", default_queue="")
        self.samples = GpuSamples()
        self.load = ClusterLoad()
        self.hosts_at = 0.0
        """When hosts and queues were told, UTC seconds."""
        self.away_since: float | None = None
        """Since when the master has not answered, UTC seconds."""
        self.version = 0
        """Grows with each change."""

    @property
    def rows(self) -> list[MirroredJob]:
        """All jobs that the master tells of, finished ones too, in no order."""
        with self._lock:
            return list(self._rows.values())

    def row(self, job_id: int) -> MirroredJob | None:
        """One job, as it was told last."""
        return self._rows.get(job_id)

    def user_of(self, job_id: int) -> str:
        """Whose job it is; empty where that is not known."""
        row = self._rows.get(job_id)
        return row.user if row is not None else ""

    def start(self) -> None:
        """Fill it, then keep it up in the background. Raises GschedError when the master does not answer."""
        with self._connect() as client:
            self._ask_hosts(client)
            self._ask_all_jobs(client)
        for work in (self._follow, self._keep_jobs, self._keep_hosts):
            threading.Thread(target=self._guarded, args=(work,), name=work.__name__, daemon=True).start()

    def stop(self) -> None:
        """Ask nothing more."""
        self._stopping.set()
        if self._following is not None:
            self._following.cancel()
        self._jobs_due.set()
        self._hosts_due.set()

    def _guarded(self, work: Callable[[Client], None]) -> None:
        """Do it again and again; what fails is tried again soon, for a master comes back."""
        with self._connect() as client:
            while not self._stopping.is_set():
                try:
                    work(client)
                    self._answered()
                except GschedError:
                    self._gone()
                except Exception:
                    log.exception("the cluster cannot be looked at")
                self._stopping.wait(AGAIN_S)

    def _answered(self) -> None:
        if self.away_since is not None:
            self.away_since = None
            self._changed(CLUSTER)
            self._changed(JOBS)

    def _gone(self) -> None:
        if self.away_since is None and not self._stopping.is_set():
            self.away_since = time.time()
            self._changed(CLUSTER)
            self._changed(JOBS)

    def _changed(self, topic: str, job_ids: Collection[int] | None = None) -> None:
        self.version += 1
        self._hub.tell(topic, job_ids)

    # -- events ---------------------------------------------------------------------------------------------------

    def _follow(self, client: Client) -> None:
        """Note what events are about, for ever. What happened before it is there is covered by asking for all."""
        after = client.last_event()
        self._note_all()
        self._following = client.following()
        if self._stopping.is_set():
            return
        try:
            for record in client.events(after, follow=True, ended_by=self._following):
                self._note(record.job_id)
        except Conflict:  # too slow: the next round asks for all
            return

    def _note(self, job_id: int) -> None:
        with self._lock:
            if job_id:
                self._noted.add(job_id)
        if job_id:
            self._jobs_due.set()
        self._hosts_due.set()

    def _note_all(self) -> None:
        with self._lock:
            self._noted.add_all()
        self._jobs_due.set()

    # -- jobs -----------------------------------------------------------------------------------------------------

    def _keep_jobs(self, client: Client) -> None:
        all_at = time.monotonic() + ALL_EVERY_S
        while not self._stopping.is_set():
            self._jobs_due.wait(max(0.0, all_at - time.monotonic()))
            self._stopping.wait(SOON_S)
            self._jobs_due.clear()
            with self._lock:
                job_ids, is_all = self._noted.take()
            began = time.monotonic()
            try:
                if is_all or began >= all_at:
                    all_at = began + ALL_EVERY_S
                    self._ask_all_jobs(client)
                elif job_ids:
                    self._ask_jobs(client, job_ids)
            except GschedError:
                self._note_all()
                raise
            self._stopping.wait(_PROPORTION * (time.monotonic() - began))

    def _ask_all_jobs(self, client: Client) -> None:
        rows = {view.job_id: row_of(view) for view in client.jobs(JobFilter(user="all", finished=True))}
        with self._lock:
            self._rows = rows
        self._changed(JOBS)
        self._changed(CLUSTER)

    def _ask_jobs(self, client: Client, job_ids: set[int]) -> None:
        """Take over these jobs; an array's number means all its elements."""
        found = {view.job_id: row_of(view) for view in jobs_named(client, job_ids)}
        with self._lock:
            for gone in meant_by(job_ids, self._rows) - found.keys():
                del self._rows[gone]
            self._rows.update(found)
        self._changed(JOBS, job_ids)

    # -- hosts ----------------------------------------------------------------------------------------------------

    def _keep_hosts(self, client: Client) -> None:
        rest = 0.0
        while not self._stopping.is_set():
            self._stopping.wait(max(rest, SOON_S))
            self._hosts_due.wait(HOSTS_EVERY_S)
            self._hosts_due.clear()
            began = time.monotonic()
            self._ask_hosts(client)
            self._answered()
            rest = max(AGAIN_S, _PROPORTION * (time.monotonic() - began))

    def _ask_hosts(self, client: Client) -> None:
        hosts, queues, cluster = tuple(client.hosts()), tuple(client.queues()), client.cluster()
        self.hosts, self.queues, self.cluster, self.hosts_at = hosts, queues, cluster, time.time()
        self.samples.add(self.hosts_at, hosts)
        self.load.add(self.hosts_at, hosts, queues)
        self._changed(CLUSTER)
