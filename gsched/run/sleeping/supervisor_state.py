"""What a supervisor must know of itself and of its attempt while the job runs, for the interpreter that comes next.

That may be of a later version: fields are only added, with defaults. What is not here is looked up anew: whether the
job is suspended, its limits, its processes.

Runs in the fork server's bare interpreter: standard library and msgspec only. Never raises for what cannot be counted.
"""

from __future__ import annotations

import msgspec

from gsched.base.coded_text import AnyText
from gsched.run.processes import process_io
from gsched.run.processes.process_io import IoBytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gsched.run.supervisor.supervisor import Supervisor


class SupervisorState(msgspec.Struct, kw_only=True):
    """As JSON in a file without a name."""

    name: str
    spool: str
    cluster: str
    notify_fd: int
    waiter: tuple[str, float, tuple[str, ...]]
    """Path, time and folders of handing_over.Waiter."""
    pid: int
    """The job's main process."""
    claim: dict[str, int | str]
    order_fd: int
    started_fd: int
    kept: list[int]
    locks: list[int]
    """Descriptors of the files in the attempt's folder, and of locked GPUs."""
    notes: list[AnyText]
    clock: tuple[float, float | None, float]
    """Of RunClock."""
    run_limit_s: int | None
    limits: dict[str, float]
    """As they were enforced last."""
    was_warned: bool
    cpu_s: float
    max_rss_kib: int
    """Of children that have ended."""
    oom_kills_before: int
    io_before: IoBytes | None
    io_now: IoBytes | None
    """Of this process; what an interpreter reads to begin again is not the job's."""
    woken: int
    """How often it was."""

    def descriptors(self) -> list[int]:
        """All that must stay open."""
        every = (self.notify_fd, self.order_fd, self.started_fd, *self.kept, *self.locks)
        return [each for each in every if each >= 0]


def state_of(supervisor: Supervisor) -> SupervisorState:
    """For `take_up`; of one that is about to sleep."""
    settings, waiter = supervisor.settings, supervisor.settings.waiter
    claim, order_fd, started_fd, kept = supervisor.folder.state()
    cpu_s, max_rss_kib = supervisor.children.state()
    return SupervisorState(
        name=supervisor.name,
        spool=settings.spool,
        cluster=settings.cluster,
        notify_fd=settings.notify_fd,
        waiter=(waiter.path, waiter.after_s, waiter.roots) if waiter is not None else ("", 0.0, ()),
        pid=supervisor.pid,
        claim=claim,
        order_fd=order_fd,
        started_fd=started_fd,
        kept=kept,
        locks=supervisor.opening.locks,
        notes=supervisor.notes,
        clock=supervisor.clock.state(),
        run_limit_s=supervisor.order.run_limit_s,
        limits=supervisor.order.limits,
        was_warned=supervisor.was_warned,
        cpu_s=cpu_s,
        max_rss_kib=max_rss_kib,
        oom_kills_before=supervisor.oom_kills_before,
        io_before=supervisor.io_before,
        io_now=process_io.read_io("self"),
        woken=supervisor.woken + 1,
    )


def take_up(supervisor: Supervisor, state: SupervisorState) -> None:
    """Have a new one go on in the interpreter that began after the sleep. Raises OSError, ValueError."""
    supervisor.folder.take_up(state.claim, state.order_fd, state.started_fd, state.kept)
    order = supervisor.folder.order()
    order = msgspec.structs.replace(order, run_limit_s=state.run_limit_s, limits=state.limits)
    supervisor.order = order
    supervisor.opening.take_up(order, state.locks)
    supervisor.pid, supervisor.notes[:] = state.pid, state.notes
    supervisor.was_warned, supervisor.woken = state.was_warned, state.woken
    supervisor.children.group = supervisor.group
    supervisor.children.is_contained = order.container is not None
    supervisor.children.take_up(state.pid, (state.cpu_s, state.max_rss_kib))
    supervisor.oom_kills_before = state.oom_kills_before
    supervisor.io_before = process_io.joined(state.io_before, state.io_now, process_io.read_io("self"))
    supervisor.clock.take_up(state.clock)
    supervisor.be_poked()  # whatever has woken it
