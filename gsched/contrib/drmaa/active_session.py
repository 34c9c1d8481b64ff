"""The one session that a process can have open: its connection, and the jobs that it has submitted.

It belongs to the process that opened it: after a fork there is none, and one can be opened.
"""

from __future__ import annotations

import os
import threading

from gsched.api import Cluster, GschedError
from gsched.base.envdir import conf_dir
from gsched.contrib.drmaa import errors
from gsched.contrib.drmaa.session_jobs import SessionJobs
from gsched.contrib.drmaa.translation import translated


class ActiveSession:
    """An open session."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.jobs = SessionJobs(cluster)
        self.process = os.getpid()

    def close(self) -> None:
        """End the connection; jobs go on. Who waits in another thread gets NoActiveSessionException."""
        self.jobs.close()
        self.cluster.close()


_changing = threading.Lock()
_active: ActiveSession | None = None


def _is_open() -> bool:
    return _active is not None and _active.process == os.getpid()


def open_session(contact: str) -> None:
    """Open a session with the cluster whose configuration folder is `contact`; empty: that of the environment.

    Raises AlreadyActiveSessionException, InvalidContactStringException, DefaultContactStringException (no cluster is
    known there) and DrmCommunicationException (its master does not answer within GSCHED_COMMAND_WAIT seconds).
    """
    global _active
    with _changing:
        if _is_open():
            raise errors.coded(errors.AlreadyActiveSessionException, "a session is open in this process already")
        try:
            cluster = Cluster(contact or None)
        except GschedError as error:
            kind = errors.InvalidContactStringException if contact else errors.DefaultContactStringException
            raise errors.coded(kind, error.text) from error
        try:
            with translated():
                cluster.client().cluster()
        except BaseException:
            cluster.close()
            raise
        _active = ActiveSession(cluster)


def close_session() -> None:
    """Close the session. Raises NoActiveSessionException."""
    global _active
    with _changing:
        session, _active = active_session(), None
    session.close()


def active_session() -> ActiveSession:
    """The open session. Raises NoActiveSessionException."""
    session = _active
    if session is None or not _is_open():
        raise errors.coded(errors.NoActiveSessionException, "no session is open: call Session.initialize() first")
    return session


def contact_string() -> str:
    """The configuration folder of the session's cluster; without a session, of the environment's."""
    session = _active
    return session.cluster.folder if session is not None and _is_open() else os.path.abspath(conf_dir(os.environ))
