"""`pbsnodes`: hosts, as PBS's command of that name shows nodes; an administrator closes and opens them with it.

Source: pbsnodes(8B) of OpenPBS 23 and of Torque 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gsched.base.errors import BadRequest
from gsched.cli.pbs.attribute_text import as_dsv, as_json, as_lines, dsv_value, format_of, json_values, one_line
from gsched.cli.pbs.pbs_call import UNKNOWN_NODE, PbsRefusal, fails_as_pbs, server_of, shown_id
from gsched.cli.pbs.pbs_job_facts import Attributes
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import complain, read_words, version_line
from gsched.cli.session.session import Session, connected
from gsched.dialect.pbs.letter_options import LetterOptions, letter, refused_letters
from gsched.dialect.pbs.pbs_values import show_size
from gsched.dialect.slurm.gnu_options import GnuWords
from gsched.model.jobs.job import STARTED
from gsched.model.views.view import HostView, JobFilter, JobView

TABLE = LetterOptions(
    summary="show hosts, or close and open them, as PBS's pbsnodes does",
    operands="[HOST ...]",
    options=(
        letter("a", "", "all hosts with all attributes"),
        letter("l", "", "hosts that are closed or not there"),
        letter("S", "", "a line for each host"),
        letter("j", "", "a line for each host with its jobs"),
        letter("L", "", "names and states as long as they are"),
        letter("v", "", "taken: a host is a vnode"),
        letter("H", "", "taken: the same"),
        letter("F", "default|dsv|json", "how attributes are written"),
        letter("D", "CHARACTERS", "what stands between fields of dsv"),
        letter("o", "", "close the hosts for new jobs"),
        letter("r", "", "open them again"),
        letter("c", "", "the same (Torque)"),
        letter("C", "TEXT", "why they are closed"),
        letter("N", "TEXT", "the same (Torque)"),
        letter("q", "", "say nothing of what is wrong"),
        letter("s", "SERVER", "taken for this server"),
        *refused_letters("d", "say -o: hosts that are not named stay as they are"),
        *refused_letters("x", "say -F json"),
        *refused_letters("p", "ghosts shows what is left of a host that is gone"),
        *refused_letters("n", "say -l and ghosts -l: notes are shown there"),
        *refused_letters("mA", "power is not managed", value="VALUE"),
    ),
    examples=("PROGRAM -a", "PROGRAM -aSj", "PROGRAM -a -F json", "PROGRAM -o -C 'fan is broken' gpu01"),
)
FAILURE = 1


@dataclass(frozen=True, slots=True)
class PbsNode:
    """A host with the jobs on it: (id, slots there)."""

    host: HostView
    jobs: tuple[tuple[str, int], ...]
    suspended: int

    @property
    def state(self) -> str:
        """free, job-busy, offline, down, and what else is so, with commas between."""
        host = self.host
        words: list[str] = []
        if host.status.startswith("un"):
            words.append("down")
        if host.closed_by or host.status == "closed_Adm":
            words.append("offline")
        if not words and host.status.startswith("closed"):
            is_alone = host.status.lower().endswith("excl")
            words.append("job-exclusive" if is_alone else "job-busy")
        return ",".join(words) or "free"

    @property
    def gpus(self) -> tuple[int, int]:
        """(free, all)."""
        return sum(not view.holders for view in self.host.gpus), len(self.host.gpus)

    @property
    def slots(self) -> tuple[int, int]:
        """(free, all)."""
        total = self.host.max_slots or self.host.ncpus
        return max(0, total - self.host.njobs), total

    @property
    def memory_mib(self) -> tuple[float, float]:
        """(free, all)."""
        total = self.host.max_mem_mib or 0.0
        return max(0.0, total - self.host.reserved.get("mem", 0.0)), total


@fails_as_pbs
def main(call: Call) -> int:
    """Run `pbsnodes`."""
    words = read_words(call, TABLE)
    form = format_of(words)
    if words.has("o", "r", "c"):
        return _control(call, words)
    if not words.rest and not words.has("a", "l", "v", "S", "j"):
        raise PbsRefusal("name hosts, or say -a for all of them; -l lists those that are closed", FAILURE)
    with connected(call) as session:
        server = server_of(session)
        nodes = _nodes(session, server)
    code = 0
    if words.rest:
        known = {node.host.name for node in nodes}
        for name in words.rest:
            if name not in known:
                code = FAILURE
                if not words.has("q"):
                    complain(call, f"Unknown node {name[:60]}")
        nodes = [node for node in nodes if node.host.name in words.rest]
    for text in _shown(nodes, words, form, server):
        call.write(text)
    return code


def _shown(nodes: Sequence[PbsNode], words: GnuWords, form: str, server: str) -> Iterator[str]:
    if words.has("l"):
        for node in nodes:
            if node.state not in ("free", "job-busy", "job-exclusive"):
                yield f"{node.host.name:<20} {node.state:<20} {one_line(node.host.comment)}".rstrip() + "\n"
        return
    if form == "json":
        short = words.has("S", "j")
        objects = {
            node.host.name: _summary_json(node, words.has("j")) if short else json_values(_attributes(node))
            for node in nodes
        }
        yield as_json("nodes", objects, server, version_line().split()[-1])
    elif words.has("S", "j"):
        yield from _summary(nodes, words, form)
    else:
        for node in nodes:
            if form == "dsv":
                yield as_dsv(f"Name={node.host.name}", _attributes(node), words.value("D", "|"))
            else:
                yield f"{node.host.name}\n" + "".join(as_lines(_attributes(node), wide=True, indent="     ")) + "\n"


def _nodes(session: Session, server: str) -> list[PbsNode]:
    on_host: dict[str, list[tuple[JobView, int]]] = {}
    for job in session.client.jobs(JobFilter(user="all", states=tuple(STARTED))):
        for part in job.allocation.hosts if job.allocation is not None else ():
            on_host.setdefault(part.host, []).append((job, part.slots))
    return [
        PbsNode(
            host,
            tuple((shown_id(job.job_id, job.spec, server), slots) for job, slots in on_host.get(host.name, ())),
            sum(job.state in ("USUSP", "SSUSP") for job, _ in on_host.get(host.name, ())),
        )
        for host in session.client.hosts()
        if host.server
    ]


def _attributes(node: PbsNode) -> Attributes:
    host = node.host
    (free, total), (free_gpus, gpus), (free_mem, memory) = node.slots, node.gpus, node.memory_mib
    found: Attributes = {"Mom": host.name, "ntype": "PBS", "state": node.state, "pcpus": str(host.ncpus)}
    if node.jobs:
        found["jobs"] = ", ".join(f"{job}/{slot}" for job, slots in node.jobs for slot in range(slots))
    available = {"arch": host.type or "linux", "host": host.name, "mem": show_size(memory), "ncpus": str(total)}
    available |= {"ngpus": str(gpus)} if gpus else {}
    available["vnode"] = host.name
    found["resources_available"] = {**available, **dict.fromkeys(host.resources, "True")}
    assigned = {"mem": show_size(memory - free_mem), "ncpus": str(total - free)}
    found["resources_assigned"] = assigned | ({"ngpus": str(gpus - free_gpus)} if gpus else {})
    if host.comment:
        found["comment"] = host.comment
    found |= {"resv_enable": "True", "sharing": "default_shared"}
    return found


def _pair(values: tuple[int, int]) -> str:
    return f"{values[0]}/{values[1]}"


def _size(mib: float) -> str:
    """At most three digits and a unit."""
    value = mib
    for unit in ("mb", "gb"):
        if value < 1000:
            return f"{value:.0f}{unit}"
        value /= 1024
    return f"{value:.0f}tb"


def _memory(node: PbsNode, *, with_free: bool) -> str:
    free, total = node.memory_mib
    return f"{_size(free)}/{_size(total)}" if with_free else _size(total)


def _job_ids(node: PbsNode) -> list[str]:
    return [job for job, _ in node.jobs]


def _summary_json(node: PbsNode, with_jobs: bool) -> Mapping[str, object]:
    if with_jobs:
        return {
            "State": node.state,
            "Total Jobs": len(node.jobs),
            "Running Jobs": len(node.jobs) - node.suspended,
            "Suspended Jobs": node.suspended,
            "mem f/t": _memory(node, with_free=True),
            "ncpus f/t": _pair(node.slots),
            "nmics f/t": "0/0",
            "ngpus f/t": _pair(node.gpus),
            "jobs": _job_ids(node),
        }
    return {
        "State": node.state,
        "OS": "--",
        "hardware": "--",
        "host": node.host.name,
        "queue": "--",
        "Memory": _memory(node, with_free=False),
        "ncpus": node.slots[1],
        "nmics": 0,
        "ngpus": node.gpus[1],
        "comment": node.host.comment or "--",
    }


def _summary(nodes: Iterable[PbsNode], words: GnuWords, form: str) -> Iterator[str]:
    """-S and -j."""
    with_jobs, is_long, delimiter = words.has("j"), words.has("L"), words.value("D", "|")
    if form == "default":
        yield from _HEADS[with_jobs]
    for node in nodes:
        facts = _summary_json(node, with_jobs)
        if form == "dsv":
            shown = {name: ",".join(value) if isinstance(value, list) else value for name, value in facts.items()}
            fields = [f"{_DSV.get(name, name)}={dsv_value(str(value), delimiter)}" for name, value in shown.items()]
            yield delimiter.join([f"vnode={node.host.name}", *fields]) + "\n"
            continue
        name = node.host.name if is_long else node.host.name[:15]
        state = node.state if is_long else node.state.partition(",")[0][:15]
        if with_jobs:
            jobs = ",".join(job.partition(".")[0] for job in _job_ids(node)) or "--"
            numbers = f"{len(node.jobs):>6} {len(node.jobs) - node.suspended:>5} {node.suspended:>6}"
            rest = f"{facts['mem f/t']:>12} {facts['ncpus f/t']:>7} {'0/0':>7} {facts['ngpus f/t']:>7} {jobs}"
            yield f"{name:<15} {state:<15} {numbers} {rest}\n"
        else:
            place = f"{'--':<8} {'--':<8} {node.host.name:<15} {'--':<10}"
            rest = (
                f"{facts['Memory']:>8} {facts['ncpus']:>7} {0:>7} {facts['ngpus']:>7} {one_line(str(facts['comment']))}"
            )
            yield f"{name:<15} {state:<15} {place} {rest}\n"


_DSV = {
    "State": "state",
    "Total Jobs": "njobs",
    "Running Jobs": "run",
    "Suspended Jobs": "susp",
    "mem f/t": "mem(f/t)",
    "ncpus f/t": "ncpus(f/t)",
    "nmics f/t": "nmics(f/t)",
    "ngpus f/t": "ngpus(f/t)",
    "Memory": "mem",
}
_HEADS = {
    True: (
        "                                                        mem       ncpus   nmics   ngpus\n",
        "vnode           state           njobs   run   susp      f/t        f/t     f/t     f/t   jobs\n",
        "--------------- --------------- ------ ----- ------ ------------ ------- ------- ------- -------\n",
    ),
    False: (
        "vnode           state           OS       hardware host            queue        mem     ncpus   nmics   "
        "ngpus  comment\n",
        "--------------- --------------- -------- -------- --------------- ---------- -------- ------- ------- "
        "------- ---------\n",
    ),
}


def _control(call: Call, words: GnuWords) -> int:
    """-o, -r and -c."""
    if not words.rest:
        raise BadRequest("name the hosts")
    action = "close" if words.has("o") else "open"
    with connected(call) as session:
        known = {host.name for host in session.client.hosts()}
        unknown = next((name for name in words.rest if name not in known), "")
        if unknown:
            raise PbsRefusal(f"Error marking node {unknown[:60]} - Unknown node", UNKNOWN_NODE)
        session.client.host_control(action, words.rest, words.value("C") or words.value("N"))
    return 0
