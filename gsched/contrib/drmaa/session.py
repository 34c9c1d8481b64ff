"""`drmaa.Session`: the calls of DRMAA 1.0, each a few lines on gsched.api.

A process has one session at a time, so the methods are static, as in drmaa-python. Ids of jobs are those that gsched
shows, `12` and `12[3]`; calls also take the ids of jobs that were submitted otherwise, or by a session of another
process, as long as the cluster knows them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from gsched import __version__
from gsched.base.ids import element_id, show_job
from gsched.contrib.drmaa import const, errors
from gsched.contrib.drmaa.active_session import active_session, close_session, contact_string, open_session
from gsched.contrib.drmaa.gsub_words import words_of
from gsched.contrib.drmaa.job_control import act_on, status_of
from gsched.contrib.drmaa.job_info import JobInfo, info_of
from gsched.contrib.drmaa.template import JobTemplate
from gsched.contrib.drmaa.translation import job_number, text_of, translated

__all__ = ["JobInfo", "JobTemplate", "Session", "Version"]

JobId = str | bytes | int

_ANY, _ALL = const.JOB_IDS_SESSION_ANY.decode(), const.JOB_IDS_SESSION_ALL.decode()


class Version(NamedTuple):
    """The version of DRMAA."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


class SessionText:
    """A text that can be read from the class as well as from an instance, with a session and without."""

    def __init__(self, read: Callable[[], str]) -> None:
        self._read = read

    def __get__(self, instance: object, owner: object = None) -> str:
        return self._read()


class Session:
    """The session of this process with a cluster; `with Session() as session:` opens and closes it.

    `contactString`: the configuration folder of the cluster; None: that which the commands find, too. Every call but
    `initialize` raises NoActiveSessionException without a session, and DrmCommunicationException when the master does
    not answer.
    """

    TIMEOUT_WAIT_FOREVER = const.TIMEOUT_WAIT_FOREVER
    TIMEOUT_NO_WAIT = const.TIMEOUT_NO_WAIT
    JOB_IDS_SESSION_ANY = const.JOB_IDS_SESSION_ANY
    JOB_IDS_SESSION_ALL = const.JOB_IDS_SESSION_ALL

    contact = SessionText(contact_string)
    """The configuration folder of the cluster: `initialize` takes it in another process, too."""
    drmsInfo = SessionText(lambda: f"gsched {__version__}")
    drmaaImplementation = SessionText(lambda: f"gsched.contrib.drmaa {__version__}")
    version = Version(1, 0)

    def __init__(self, contactString: str | None = None) -> None:
        self.contactString = contactString

    def __enter__(self) -> Session:
        self.initialize(self.contactString)
        return self

    def __exit__(self, *_: object) -> None:
        self.exit()

    @staticmethod
    def initialize(contactString: str | bytes | None = None) -> None:
        """Open the session. Raises AlreadyActiveSessionException, InvalidContactStringException,
        DefaultContactStringException, DrmCommunicationException.
        """
        open_session(text_of(contactString or ""))

    @staticmethod
    def exit() -> None:
        """Close the session; jobs go on, and threads that wait get NoActiveSessionException."""
        close_session()

    @staticmethod
    def createJobTemplate() -> JobTemplate:
        """A new template."""
        active_session()
        return JobTemplate()

    @staticmethod
    def deleteJobTemplate(jobTemplate: JobTemplate) -> None:
        """The template can be used no more; jobs go on. Raises InvalidJobTemplateException the second time."""
        jobTemplate.delete()

    @staticmethod
    def runJob(jobTemplate: JobTemplate) -> str:
        """Submit a job; returns its id once it is on disk.

        Raises DeniedByDrmException with the cluster's reason, TryLaterException where a limit is reached, and the
        errors about attributes.
        """
        return show_job(_submit(jobTemplate))

    @staticmethod
    def runBulkJobs(jobTemplate: JobTemplate, beginIndex: int, endIndex: int, step: int = 1) -> list[str]:
        """Submit an array with the indices from the first to the last; returns the ids of its elements in that order.

        A negative step counts downwards; the array is the same. Raises as `runJob`, and InvalidArgumentException where
        there is no index, or one below 1.
        """
        last = endIndex + (1 if step > 0 else -1)
        indices = range(beginIndex, last, step) if step else range(0)
        if not indices or min(indices[0], indices[-1]) < 1:
            text = f"runBulkJobs: {beginIndex} to {endIndex} by {step}: there is no index, or one below 1"
            raise errors.coded(errors.InvalidArgumentException, text)
        low, high = sorted((indices[0], indices[-1]))
        array = _submit(jobTemplate, f"{low}-{high}:{abs(step)}")
        elements = [element_id(array, index) for index in indices]
        active_session().jobs.add(elements)
        return [show_job(element) for element in elements]

    @staticmethod
    def control(jobId: JobId, operation: str) -> None:
        """Do one of JobControlAction to a job; JOB_IDS_SESSION_ALL means all jobs of the session that are not over.

        To hold, suspend or end a job for which that has been done already is no error. Raises InvalidJobException,
        InvalidArgumentException for another action, AuthorizationException, and the action's
        ...InconsistentStateException for a job whose state does not allow it; to all others it is done.
        """
        session = active_session()
        if text_of(jobId) == _ALL:
            act_on(session.cluster, session.jobs.unreaped(), operation, skips_finished=True)
            return
        number = job_number(jobId)
        session.jobs.check([number])
        act_on(session.cluster, [number], operation, skips_finished=False)

    @staticmethod
    def synchronize(jobIds: Iterable[JobId] | JobId, timeout: float = -1, dispose: bool = False) -> None:
        """Wait at most `timeout` seconds until all of the jobs have ended; JOB_IDS_SESSION_ALL among them means all
        that the session has submitted and nobody has waited for. `dispose`: they are forgotten, as by `wait`.

        Raises ExitTimeoutException, InvalidJobException.
        """
        session, limit = active_session(), _seconds(timeout)
        names = [jobIds] if isinstance(jobIds, str | bytes | int) else list(jobIds)
        numbers = [job_number(name) for name in names if text_of(name) != _ALL]
        session.jobs.check(numbers)
        if len(numbers) < len(names):
            numbers += session.jobs.unreaped()
        session.jobs.wait_for_all(list(dict.fromkeys(numbers)), limit, reaps=dispose)

    @staticmethod
    def wait(jobId: JobId, timeout: float = -1) -> JobInfo:
        """Wait at most `timeout` seconds until the job has ended, or with JOB_IDS_SESSION_ANY any job of the session.

        A job is told of once: then it is forgotten. Raises ExitTimeoutException, and InvalidJobException for a job that
        there is not or that has been waited for, and with JOB_IDS_SESSION_ANY when none is left.
        """
        jobs, limit = active_session().jobs, _seconds(timeout)
        if text_of(jobId) == _ANY:
            return info_of(jobs.wait_for_any(limit))
        return info_of(jobs.wait_for(job_number(jobId), limit))

    @staticmethod
    def jobStatus(jobId: JobId) -> str:
        """One of JobState, as of now, however long ago the job ended. Raises InvalidJobException."""
        return status_of(active_session().cluster, job_number(jobId))


def _submit(template: JobTemplate, indices: str = "") -> int:
    """The number of the job or array."""
    session = active_session()
    words = words_of(template, time.time(), indices)
    with translated(not_found=errors.DeniedByDrmException):
        if words.environment:
            job = session.cluster.submit(words.command, options=words.options, env=words.environment)
        else:
            job = session.cluster.submit(words.command, options=words.options)
    if not indices:
        session.jobs.add([job.id])
    return job.id


def _seconds(timeout: float) -> float | None:
    """None for ever. Raises InvalidArgumentException for a number below 0 that is not TIMEOUT_WAIT_FOREVER."""
    if timeout == const.TIMEOUT_WAIT_FOREVER:
        return None
    if timeout < 0:
        raise errors.coded(errors.InvalidArgumentException, f"timeout={timeout!r}: seconds, or -1 for ever")
    return timeout
