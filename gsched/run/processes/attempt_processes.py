"""Which processes belong to an attempt: those of its group and those below its supervisor.

Where the supervisor was killed, those that can still be told for certain: the job's main process, what descends from
it, what is in its session while it leads that, and what carries the attempt's mark. A process that has left all of
these behind is found by its group alone. Signals nobody.
"""

from __future__ import annotations

from collections.abc import Iterable

from gsched.run.attempts.attempt import Attempt
from gsched.run.fence import cgroup_files
from gsched.run.processes import process_tree

ProcessTable = dict[int, process_tree.Process]


def members(held: Attempt, table: ProcessTable) -> list[process_tree.Process]:
    """Living processes of the attempt, as the table of all processes shows them."""
    found = _relatives(held, table)
    return process_tree.joined(found, held.group.pids(), table) if held.group is not None else found


def now(held: Attempt) -> list[process_tree.Process]:
    """Living processes of the attempt at this moment: a look at all processes of the host."""
    return members(held, process_tree.scan())


def _relatives(held: Attempt, table: ProcessTable) -> list[process_tree.Process]:
    if held.supervisor is not None:
        reaper = table.get(held.supervisor[0])
        if reaper is not None and reaper.start == held.supervisor[1] and not reaper.is_dead:
            return process_tree.descendants(reaper.pid, table)
    uid = held.account.uid if held.account is not None else None
    found = process_tree.marked(held.mark, table, uid) if held.mark else []
    near = _session(held, table)
    below = [each for root in near for each in process_tree.descendants(root.pid, table)]
    return process_tree.joined(found, [each.pid for each in (*near, *below)], table)


def _session(held: Attempt, table: ProcessTable) -> list[process_tree.Process]:
    """The job's main process, known by its number and start (it has no mark before it has become its program), and
    its session. A session's number is nobody else's while one of it lives; so an end that was not seen ends the trust.
    """
    if held.started is None:
        return []
    pid, start = held.started.pid, held.started.start
    main = table.get(pid)
    if main.start != start if main is not None else not held.was_seen:
        return []
    return [each for each in table.values() if each is main or (each.session == pid and each.start >= start)]


def tell(held: Attempt, signum: int) -> None:
    """Send a signal to the attempt's supervisor, if that lives: no other process has its number and its start."""
    if held.supervisor is not None:
        process = process_tree.read_process(held.supervisor[0])
        if process is not None and held.supervisor == (process.pid, process.start):
            process_tree.send(process, signum)


def owners(attempts: Iterable[Attempt], pids: Iterable[int]) -> dict[int, str]:
    """Process id -> name of the attempt that it belongs to, of those that belong to one of these.

    By descent from a supervisor or a main process whatever the environment says, by group, by session, by mark.
    """
    signs = _Signs(attempts)
    named = ((pid, signs.name_of(pid)) for pid in pids)
    return {pid: name for pid, name in named if name}


def proven(attempts: Iterable[Attempt], pid: int) -> str:
    """Name of the attempt that the process belongs to by descent or by group, which nobody can forge; else empty."""
    signs = _Signs(attempts)
    above = list(process_tree.ancestors(pid))
    return signs.by_root(above) or (signs.by_place(pid) if above else "")


class _Signs:
    """What attempts are known by."""

    def __init__(self, attempts: Iterable[Attempt]) -> None:
        self._roots: dict[tuple[int, int], str] = {}
        self._leaders: dict[int, tuple[int, str]] = {}
        self._places: dict[str, str] = {}
        self._marks: dict[str, tuple[str, int | None]] = {}
        """Mark -> name, and number of the user whose processes alone it counts for."""
        for held in attempts:
            if held.supervisor is not None:
                self._roots[held.supervisor] = held.name
            if held.started is not None:
                self._roots[held.started.pid, held.started.start] = held.name
                self._leaders[held.started.pid] = held.started.start, held.name
            if held.group is not None:
                self._places |= dict.fromkeys(held.group.places, held.name)
            if held.mark:
                self._marks[held.mark] = held.name, held.account.uid if held.account is not None else None

    def name_of(self, pid: int) -> str:
        """Name of the attempt that the process belongs to, empty for none."""
        above = list(process_tree.ancestors(pid))
        if not above:
            return ""
        start, leader = self._leaders.get(above[0].session, (0, ""))
        return (
            self.by_root(above)
            or self.by_place(pid)
            or (leader if leader and process_tree.is_alive(above[0].session, start) else "")
            or self._marked(pid)
        )

    def by_root(self, above: list[process_tree.Process]) -> str:
        """Of a supervisor or a main process among these, the nearest first."""
        return next(filter(None, (self._roots.get((each.pid, each.start), "") for each in above)), "")

    def by_place(self, pid: int) -> str:
        """Of the group that the process is in."""
        return next(filter(None, (self._places.get(place, "") for place in cgroup_files.places_of(pid))), "")

    def _marked(self, pid: int) -> str:
        name, uid = self._marks.get(process_tree.mark_of(pid), ("", None))
        return name if uid is None or process_tree.owner_of(pid) == uid else ""
