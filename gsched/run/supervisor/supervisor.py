"""The supervisor of one attempt: it starts the job, waits for it and writes down how it ended.

It is forked by the fork server, leads a session of its own and outlives both fork server and agent; losing either must
not touch the job. It is the only process that can learn the job's exit status, so it ignores every signal that can be
ignored, and it claims the attempt by an exclusive create before anything else: one order never runs twice.

Runs in the fork server's bare interpreter: standard library and msgspec only, and little of that. Never asks anybody
for anything once the job runs; it tells the agent by a byte line on a pipe, and by files in the attempt's folder.
"""

from __future__ import annotations

import math
import os
import signal
import time

from gsched.base.coded_text import AnyText, coded, listed
from gsched.run.account import acting_as
from gsched.run.agent_line import tell
from gsched.run.containers.container_processes import SignalReach, main_of
from gsched.run.fence.group import FenceGroup
from gsched.run.processes import oom_kills, process_io, process_tree
from gsched.run.processes.warned_processes import warned
from gsched.run.sleeping.supervisor_state import state_of
from gsched.run.supervisor import host_parts, job_spawn, run_limits, steps
from gsched.run.supervisor.attempt_folder import AttemptFolder
from gsched.run.supervisor.children import Children, end_sessions
from gsched.run.supervisor.job_process import GO, JobProgram, become_job, why
from gsched.run.supervisor.opening import AttemptOpening, FinalFailure, NotStarted, StepFailed, SupervisorSettings
from gsched.run.supervisor.run_clock import RunClock
from gsched.run.supervisor.supervisor_signals import AWAITED, IGNORED, POKE
from gsched.run.task_files import TASKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gsched.run.order import JobStep, Order
    from gsched.run.supervisor.tasks import Tasks
    from gsched.run.supervisor.terminal import Terminal

TAKE_PATIENCE_S = 10.0
"""How long the end of an interactive job waits for somebody who takes what it printed last; then it is put by."""
AGAIN_S = 1.0
"""Until the end of a task is written again that could not be."""
MOST_LEFT_NAMED = 10
"""Of the processes that a job leaves running so many are named; the others are counted."""


class Supervisor:
    """One attempt from claim to status."""

    def __init__(self, settings: SupervisorSettings, name: str, *, is_in_a_row: bool = False) -> None:
        """`is_in_a_row`: this host has begun another attempt just before."""
        self.settings = settings
        self.is_in_a_row = is_in_a_row
        self.name = name
        self.folder = AttemptFolder(f"{settings.spool}/{name}")
        self.notes: list[AnyText] = []
        self.opening = AttemptOpening(self.folder.path, settings, self._note)
        self.order: Order
        self.is_inside = False
        self.pid = 0
        self.children = Children(self._listen)
        self.term_reason = ""
        self.clock = RunClock()
        self.was_warned = False
        self.woken = 0
        """How often it has slept."""
        self.poked = False
        self.awaited = AWAITED
        self.steps_done = 0
        """Of a part: how many of the steps before it have succeeded."""
        self.told: set[int] = set()
        """Of a part: which of host_parts.ENDINGS have come."""
        self.unkillable: list[tuple[int, str]] = []
        self.oom_kills_before = 0
        """Of the machine."""
        self.io_before: process_io.IoBytes | None = None
        """What this process had read and written when the job began."""
        self.tasks: Tasks | None = None

    @property
    def group(self) -> FenceGroup | None:
        """The job's control group, once there is one."""
        return self.opening.group

    @property
    def terminal(self) -> Terminal | None:
        """An interactive job's."""
        return self.opening.terminal

    @property
    def main_status(self) -> int | None:
        """Wait status of the job's main process, None as long as it runs."""
        return self.children.status_of(self.pid)

    def run(self) -> bool:
        """Everything; returns when the status is written, or at once when another supervisor has the attempt.

        Whether this process is as it was before, and may run another attempt.
        """
        if not self.folder.claim(self.settings.boot_id):
            return False
        try:
            self._begin()
        except FinalFailure as failure:
            self._remove_group()
            self.folder.write_status(
                {"exit_code": failure.exit_code, "term_reason": failure.term_reason}, failure.problem
            )
        except StepFailed as failure:
            self._remove_group()
            how = {"exit_code": failure.code} if failure.code == steps.ABORT else {"pre_failed": True}
            self.folder.write_status({"started": False, **how}, failure.problem)
        except Exception as error:
            unexpected = coded("attempt.unexpected", type(error).__name__, str(error))
            self._remove_group()
            self.folder.write_status({"started": False}, error.problem if isinstance(error, NotStarted) else unexpected)
        else:
            return self.see_to_the_end()
        return False

    def see_to_the_end(self) -> bool:
        """Of a job that runs; as `run`."""
        self._watch()
        ended_at, run_s, suspended_s = time.time(), self.clock.since_begin_s(), self.clock.suspended_s
        if self.woken and (seen_at := self.folder.waited_until()):
            late_s = min(max(ended_at - seen_at, 0.0), run_s)
            ended_at, run_s = ended_at - late_s, run_s - late_s
        self._note(self.children.sweep(self._name_unkillable))
        result = self._result(ended_at, run_s) | {"suspended_s": suspended_s} | self._after() | self._left_running()
        if self.terminal is not None:
            self._finish_terminal(self.terminal)
        is_as_before = self._leave_group() and self._is_as_before()
        is_in_place = self.folder.write_status(result, listed(self.notes, "list.semicolon"))
        self.folder.close()
        return is_as_before and is_in_place

    def _is_as_before(self) -> bool:
        """Whether nothing of the job is left in this process: no child, thread, lock, or bond to CPUs and nodes."""
        order = self.order
        has_bonds = bool(order.cpus or order.memory_nodes or order.gpu_lock_uuids)
        is_plain = not (order.is_part or order.interactive or order.first or order.last or has_bonds)
        has_left = bool(self.children.left or self.unkillable) or self.tasks is not None
        return is_plain and not has_left and not self.children.reap()

    # -- before the job ------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Read the order, make ready what it wants, fork the job, record it, let it go."""
        self.order = self.folder.limited(self.folder.order())
        try:
            self.opening.prepare(self.order)
        finally:
            self.children.group = self.group
            self.children.is_contained = self.order.container is not None
        if self.order.is_part:
            self._open_part()
            return
        gate = self._fork_job()
        try:
            self._make_known()
        except NotStarted:
            os.close(gate)  # the job leaves without having executed anything
            raise
        if run_limits.CPULIMIT in self.order.limits:
            job = process_tree.read_process(self.pid)
            run_limits.limit_cpu([job] if job is not None else [], self.order.limits)
        self.oom_kills_before = oom_kills.of_machine()
        self.io_before = process_io.read_io("self")
        self.clock.begin()
        try:
            os.write(gate, GO)
        except BrokenPipeError:  # killed already; its status will tell
            pass
        os.close(gate)
        tell(self.settings.notify_fd, self.name)

    def _open_part(self) -> None:
        """There is no process to be started: this one is what there is of the job."""
        host_parts.await_endings()
        self.awaited = AWAITED | host_parts.ENDINGS
        self.pid = os.getpid()
        try:
            self._run_first_of_part()
        except NotStarted:
            self._undo_first()
            raise
        try:
            self.folder.record_start(self.pid, self.order, self.opening.output, self.opening.error)
        except OSError as error:
            raise NotStarted(coded("attempt.not_written", self.folder.path, why(error))) from error
        self.io_before = process_io.read_io("self")
        self.clock.begin()
        tell(self.settings.notify_fd, self.name)

    def _run_first_of_part(self) -> None:
        """HOST_PRE_EXEC. Raises StepFailed when one fails or takes too long, NotStarted when the part is to end."""
        timeout_s = self.order.first_timeout_s
        until = time.monotonic() + timeout_s if timeout_s else math.inf
        for step in self.order.first:
            ended_with = self._run_step(step, self.order.environment, until, ends_when_told=True)
            self.steps_done += not ended_with
            if self.told:
                raise NotStarted(coded("attempt.killed_early"))
            if ended_with:
                is_late = time.monotonic() >= until
                why_not = ("step.first_late", timeout_s) if is_late else ("step.failed", ended_with)
                raise StepFailed(coded(why_not[0], step.what, why_not[1]), steps.LATE if is_late else ended_with)

    def _undo_first(self) -> None:
        """Of a part that is not opened: what its very first step has made, if it has."""
        for step in self.order.last:
            if step.undoes_first and self.steps_done:
                self._run_step(step, self.order.environment, math.inf)

    def _fork_job(self) -> int:
        """Fork the job, which waits at its gate; the gate's descriptor."""
        gate_in, gate_out = os.pipe()
        try:
            self.pid = self._spawn(gate_in) or self._fork(gate_in, gate_out)
        except OSError as error:
            raise NotStarted(coded("attempt.no_process", why(error))) from error
        self.children.follow(self.pid)
        os.close(gate_in)
        for fd in set(self.opening.streams):
            os.close(fd)
        os.chdir("/")  # do not keep the job's file system busy
        if self.terminal is not None:
            self.terminal.start()
        return gate_out

    def _become_job(self, gate: int) -> None:
        become_job(
            JobProgram(self.order, self.opening.programs(), self.opening.rights, self.order),
            self.opening.streams,
            gate,
            self.order.first,
            self.folder.failed,
            has_terminal=self.terminal is not None and self.terminal.is_pty,
        )

    def _make_known(self) -> None:
        """Put the job, which waits at its gate, into its fence and on record."""
        try:
            self._enter_group()
        except OSError as error:
            raise NotStarted(coded("attempt.no_fence", why(error))) from error
        try:
            self.folder.record_start(self.pid, self.order, self.opening.output, self.opening.error)
        except OSError as error:
            raise NotStarted(coded("attempt.not_written", self.folder.path, why(error))) from error

    def _spawn(self, gate: int) -> int:
        """Start the job without a fork; 0 where it must be forked. Raises OSError.

        One that is to be in a group only where jobs follow each other: to be put there later takes hardly any time
        then, and milliseconds after a pause (run.fence.v2).
        """
        if (self.group is not None and not self.is_in_a_row) or not job_spawn.may_spawn(self.order):
            return 0
        return job_spawn.spawn_job(self.order, self.opening.programs()[0], self.opening.streams, gate)

    def _fork(self, gate: int, gate_out: int) -> int:
        """Fork the job; the child is inside from the first where that can be done. Raises OSError."""
        # Blocked until the child no longer ignores what we ignore: a signal that comes early must not be lost.
        signal.pthread_sigmask(signal.SIG_SETMASK, IGNORED | AWAITED)
        pid = self.group.fork() if self.group is not None else None
        self.is_inside = pid is not None
        if pid is None:
            pid = os.fork()
        if pid == 0:
            os.close(gate_out)  # else the gate would never report that the supervisor died
            self._become_job(gate)
        signal.pthread_sigmask(signal.SIG_SETMASK, AWAITED)
        return pid

    def _enter_group(self) -> None:
        """Put the job, which waits at its gate, inside. Raises OSError."""
        if self.group is None or self.is_inside:
            return
        try:
            self.group.add(self.pid)
        except ProcessLookupError:  # killed already; its status will tell
            pass

    def _remove_group(self) -> None:
        """Of a job that has not started: what runs there is an earlier job's or nobody's, and not ours to end."""
        if self.group is not None:
            self.group.remove()

    def _leave_group(self) -> bool:
        """Whether it was empty."""
        if self.group is None or self.group.remove():
            return True
        end_sessions(self.group)
        return False

    # -- while the job runs --------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Wait for the job's main process, or as long as a part is to be there; enforce its limits. Run time does not
        count while it is suspended.
        """
        order = self.order
        guard = run_limits.RunLimitGuard(
            order.run_limit_s,
            order.limits,
            order.terminate_interval_s,
            self.children.tree,
            ends_by_term=order.ends_by_term,
            is_contained=order.container is not None,
        )
        while True:
            is_busy = self.children.reap()
            most_s = AGAIN_S if self.tasks is not None and self.tasks.note_ends() else None
            if self.main_status is not None or self._is_part_over(is_busy, guard):
                break
            if self.poked:
                self.poked = False
                guard = self._limited_anew(guard)
                self._look_for_tasks()
            ran_s = self.clock.ran_s()
            warn_s = math.inf if self.was_warned else self._warning_due()
            due = min(guard.due, warn_s)
            if self.clock.is_stopped or due == math.inf:
                self._await_news(most_s, guard)
            elif due > ran_s:
                self._await_news(min(due - ran_s, most_s or math.inf), guard)
            elif warn_s <= ran_s:
                self.was_warned = True
                self.folder.mark_warned()
                self.folder.note_deadline(time.time() + self._ends_at(order) - ran_s)
                self._warn(order)
                tell(self.settings.notify_fd, self.name)
            else:
                guard.act(ran_s, self.children.cpu_s)
                if guard.is_helpless(ran_s):
                    self._name_unkillable(self.children.tree())
        self.term_reason = guard.term_reason or guard.explains(death(self.main_status or 0))

    def _warn(self, order: Order) -> None:
        """-wa, --signal."""
        reach, there = SignalReach(is_contained=order.container is not None), self.children.tree()
        main = main_of(there, self.pid, is_contained=reach.is_contained)
        told = warned(reach.meant(there, order.warning_signal), order.warning_target, main)
        process_tree.send_all(told, order.warning_signal)

    def _limited_anew(self, guard: run_limits.RunLimitGuard) -> run_limits.RunLimitGuard:
        """The guard of the limits as they are now."""
        before, self.order = self.order, self.folder.limited(self.order)
        if self.order is before:
            return guard
        run_limits.limit_cpu(self.children.tree(), self.order.limits, before.limits)
        return guard.renewed(self.order.run_limit_s, self.order.limits)

    def _is_part_over(self, is_busy: bool, guard: run_limits.RunLimitGuard) -> bool:
        """Whether a part is to leave: told to, or because what ran there was ended for exceeding a limit."""
        if host_parts.CLOSE in self.told:
            return True
        return not is_busy and self.order.is_part and bool(self.told or guard.term_reason)

    def _look_for_tasks(self) -> None:
        """Start those that were ordered; of a job that is suspended when it goes on."""
        if self.clock.is_stopped:
            return
        if self.tasks is None and os.path.isdir(f"{self.folder.path}/{TASKS}"):
            from gsched.run.supervisor.tasks import Tasks  # only now: other jobs do without

            rights, fd = self.opening.rights, self.settings.notify_fd
            self.tasks = Tasks(self.folder.path, self.children, self.group, rights, lambda: tell(fd, self.name))
        if self.tasks is not None:
            self.tasks.look(self.order)

    def _warning_due(self) -> float:
        """At which run time the job is warned of its end (-wa, -wt); infinity for never."""
        return max(self._ends_at(self.order) - self.order.warning_s, 0.0) if self.order.warning_signal else math.inf

    def _ends_at(self, order: Order) -> float:
        """At which run time its limit or -t ends it; infinity for never."""
        ends: list[float] = [order.run_limit_s] if order.run_limit_s is not None else []
        if order.terminate_at is not None:
            ends.append(self.clock.ran_s_at(order.terminate_at))
        return min(ends, default=math.inf)

    def _await_news(self, most_s: float | None, guard: run_limits.RunLimitGuard) -> None:
        """As `_listen`; where nothing comes for a while this process becomes the program that waits in its place."""
        waiter = self.settings.waiter
        has_more = self.terminal is not None or self.tasks is not None or self.order.is_part or guard.term_reason
        if waiter is None or has_more or not waiter.is_worth(most_s):
            self._listen(most_s)
            return
        patience_s = waiter.patience_s(self.woken)
        if not self._listen(patience_s):
            waiter.sleep(state_of(self), self.folder.path, None if most_s is None else most_s - patience_s)
            self.settings.waiter = None  # it cannot be executed

    def be_poked(self) -> None:
        """Look anew at what the agent may have changed."""
        self.poked = True
        self.clock.note(self.folder.is_suspended())

    def _listen(self, timeout_s: float | None) -> bool:
        """Wait for a child's end or for a poke; after a poke see whether the job's clock stands still. False: nothing
        has come in that time.
        """
        heard: signal.struct_siginfo | None
        awaited = self.awaited
        heard = signal.sigwaitinfo(awaited) if timeout_s is None else signal.sigtimedwait(awaited, timeout_s)
        if heard is not None and heard.si_signo in host_parts.ENDINGS:
            self.told.add(heard.si_signo)
        if heard is not None and heard.si_signo == POKE:
            self.be_poked()
        return heard is not None

    def _finish_terminal(self, terminal: Terminal) -> None:
        terminal.finish(TAKE_PATIENCE_S)
        try:
            terminal.leave(self.folder.path)
        except OSError as error:
            self._note(coded("attempt.last_output", why(error)))

    # -- after the job -------------------------------------------------------------------------------------------

    def _after(self) -> dict[str, object]:
        """Run the steps that follow the job; what they and a step before it have to do with the result."""
        failed = self.folder.failed_step()
        more: dict[str, object] = {}
        environment = dict(self.order.environment)
        if not self.order.is_part:
            environment["LSB_JOBEXIT_STAT"] = str(self.main_status or 0)
        if failed is not None:
            code, place, is_late = failed
            step = self.order.first[place]
            self._note(self._why_first_failed(step, code, is_late=is_late))
            if code != steps.ABORT and not self.term_reason:
                more = {"pre_failed": True, "started": False, "exit_code": None, "signal": None}
                more |= {"pre_exec": step.level, "pre_exec_code": code} if step.level else {}
                environment["LSB_JOBPEND"] = "Y"
        timeout_s = self.order.last_timeout_s
        until = time.monotonic() + timeout_s if timeout_s else math.inf
        for step in self.folder.steps_after(self.order):
            ended_with = self._run_last(step, environment, until)
            more["post_code"] = more.get("post_code") or ended_with
            if ended_with:
                is_late = time.monotonic() >= until
                why_not = ("step.last_late", timeout_s) if is_late else ("step.failed", ended_with)
                self._note(coded(why_not[0], step.what, why_not[1]))
                if is_late:
                    break
        return more

    def _why_first_failed(self, step: JobStep, code: int, *, is_late: bool) -> AnyText:
        if is_late:
            timeout_s = self.order.first_timeout_s
            by_level = coded("step.pre_exec_late", step.level, timeout_s)
            return by_level if step.level else coded("step.first_late", step.what, timeout_s)
        return coded("step.pre_exec_failed", step.level, code) if step.level else coded("step.failed", step.what, code)

    def _run_last(self, step: JobStep, environment: dict[str, str], until: float) -> int:
        """One step, to its end, or killed at `until` (time.monotonic); 126 when it cannot be run."""
        try:
            self.folder.mark_past_job()
        except OSError as error:
            self._note(coded("step.not_run", step.what, why(error)))
            return 126
        return self._run_step(step, environment, until)

    def _run_step(
        self, step: JobStep, environment: dict[str, str], until: float, *, ends_when_told: bool = False
    ) -> int:
        """The same; `ends_when_told`: it is killed when the part that it belongs to is to end."""
        try:
            with acting_as(self.opening.rights.user):
                os.chdir(steps.SITE_FOLDER if step.is_site or self.order.is_part else self.order.cwd)
            enter = self.group.add if self.group is not None else None
            pid = steps.fork_step(step, environment, self.opening.rights, self.order.umask, enter)
            self.children.follow(pid)
        except OSError as error:
            self._note(coded("step.not_run", step.what, why(error)))
            return 126
        finally:
            os.chdir("/")
        while self.children.reap() and self.children.status_of(pid) is None:
            left_s = until - time.monotonic()
            if left_s <= 0 or (ends_when_told and self.told):
                process_tree.send_all(self.children.tree(), signal.SIGKILL)
            self._listen(AGAIN_S if left_s <= 0 or self.told else None if until == math.inf else left_s)
        self._note(self.children.sweep(self._name_unkillable))
        return steps.shell_code(self.children.status_of(pid) or 0)

    def _name_unkillable(self, processes: list[process_tree.Process]) -> None:
        """Tell the agent who does not end by SIGKILL. As long as they are there, what the attempt holds is not free."""
        named = sorted((process.pid, process.name) for process in processes)
        if named in ([], self.unkillable):
            return
        if self.folder.write_unkillable(named):
            self.unkillable = named
            tell(self.settings.notify_fd, self.name)

    def _result(self, ended_at: float, run_s: float) -> dict[str, object]:
        status = self.main_status or 0
        how: dict[str, object] = {"core_dumped": os.WCOREDUMP(status), "term_reason": self.term_reason}
        if self.folder.wants_requeue():
            how["wants_requeue"] = True
        if os.WIFSIGNALED(status):
            how["signal"] = os.WTERMSIG(status)
        else:
            how["exit_code"] = os.WEXITSTATUS(status)
        used = {
            "cpu_s": self.children.cpu_s,
            "max_mem_mib": self.children.max_mem_mib,
            "pgid": self.pid if self.pid != os.getpid() else None,
            **process_io.fields_since(self.io_before, process_io.read_io("self")),
        }
        return {**how, "ended_at": ended_at, "run_s": run_s, "usage": used, "oom_kills": self._oom_kills(status)}

    def _oom_kills(self, status: int) -> int:
        if not status or self.term_reason or self.order.is_part:
            return 0
        folders = self.order.fence.folders if self.order.fence is not None else ()
        return oom_kills.of_job(tuple(folders), oom_kills.of_machine() - self.oom_kills_before, death(status))

    def _left_running(self) -> dict[str, object]:
        """What the job had left running when it was over; of a part all is ended by others, with the job."""
        left = self.children.left
        if not left or self.order.is_part:
            return {}
        named = [{"pid": pid, "name": each.name, "killed": each.was_killed} for (pid, _), each in left.items()]
        return {"left_running": named[:MOST_LEFT_NAMED], "left_running_count": len(left)}

    def _note(self, text: AnyText) -> None:
        if text:
            self.notes.append(text)


def death(status: int) -> int:
    """The signal that a wait status tells of, also where a shell passes its child's death on as 128 + signal."""
    if os.WIFSIGNALED(status):
        return os.WTERMSIG(status)
    return max(os.WEXITSTATUS(status) - 128, 0)
