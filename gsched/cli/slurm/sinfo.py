"""`sinfo`: queues and their hosts, as Slurm's command of that name shows partitions and nodes.

Source: sinfo(1) of Slurm 22.05, whose list of options the table goes through; a test compares them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from gsched.base.errors import BadRequest
from gsched.base.node_lists import expand_nodes
from gsched.cli.session.call import Call
from gsched.cli.session.session import Session, connected
from gsched.cli.session.time_zone import zone_of
from gsched.cli.slurm.facts.node_facts import CLOSED, SHORT_STATES, hosts_of_queue, node_state
from gsched.cli.slurm.facts.node_records import node_pieces
from gsched.cli.slurm.formats import Layout, by_letters, by_names
from gsched.cli.slurm.node_columns import NODE_BY_LETTER, NODE_BY_NAME, NodeGroup
from gsched.cli.slurm.slurm_call import GENERAL, fails_as_slurm, read_listing
from gsched.dialect.slurm.gnu_options import VERBOSE, GnuOption, GnuOptions, GnuWords, refused
from gsched.dialect.slurm.slurm_values import parse_count
from gsched.model.views.view import HostView, QueueView

TABLE = GnuOptions(
    summary="show queues and hosts, as Slurm's sinfo does",
    operands="",
    options=(
        GnuOption("partition", "p", "NAMES", "only these queues", variable="SINFO_PARTITION"),
        GnuOption("nodes", "n", "NODES", "only these nodes"),
        GnuOption("states", "t", "STATES", "only nodes in these states: idle, mix, alloc, drain, down"),
        GnuOption("format", "o", "FORMAT", "what is shown, such as '%P %D'", variable="SINFO_FORMAT"),
        GnuOption("Format", "O", "FIELDS", "what is shown, such as NodeList:30,Gres"),
        GnuOption("Node", "N", help="a line for each node"),
        GnuOption("long", "l", help="more columns"),
        GnuOption("summarize", "s", help="a line for each queue, with counts of nodes"),
        GnuOption("list-reasons", "R", help="nodes that are closed or away, and why"),
        GnuOption("exact", "e", help="a line for each kind of node, where nodes of a state differ"),
        GnuOption("sort", "S", "FIELDS", "order, such as P,-D; + and - before a field", variable="SINFO_SORT"),
        GnuOption("noheader", "h", help="no heading"),
        GnuOption("responding", "r", help="only nodes that answer"),
        GnuOption("dead", "d", help="only nodes that do not"),
        GnuOption("iterate", "i", "SECONDS", "show them again and again"),
        GnuOption("json", help="JSON"),
        GnuOption("all", "a", help="taken: no queue is hidden", variable="SINFO_ALL"),
        GnuOption("hide", help="taken: no queue is hidden"),
        *GENERAL,
        GnuOption("noconvert", help="taken: nothing is converted"),
        GnuOption(
            "clusters", "M", "NAMES", "taken: there is one cluster", variable="SLURM_CLUSTERS", also=("cluster",)
        ),
        GnuOption("local", help="taken: there is one cluster"),
        GnuOption("federation", help="taken: there is one cluster"),
        GnuOption("future", "F", help="taken: every host is there"),
        VERBOSE,
        *refused("yaml", because="--json is there"),
        *refused("reservation/T", because="scontrol show reservation shows them"),
    ),
    interspersed=True,
    examples=("PROGRAM", "PROGRAM -N -l", "PROGRAM -o '%n %t %G' --nodes gpu01"),
)
_DEFAULT = "%9P %.5a %.10l %.6D %.6t %N"
_LONG = "%9P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %N"
_NODES = "%10N %.6D %.9P %.6t"
_NODES_LONG = "%10N %.6D %.9P %.11T %.4c %.8z %.6m %.8d %.6w %.8f %20E"
_SUMMARY = "%9P %.5a %.10l %.16F %N"
_REASONS = "%20E %9u %19H %N"
_REASONS_LONG = "%20E %12U %19H %6t %N"
_STATES = frozenset(
    {
        *(
            "idle",
            "mixed",
            "allocated",
            "drained",
            "draining",
            "down",
            "comp",
            "completing",
            "fail",
            "failg",
            "failing",
        ),
        *("future", "futr", "maint", "no_respond", "npc", "perfctrs", "planned", "power_down", "powered_down"),
        *(
            "powering_down",
            "powering_up",
            "power_up",
            "reboot",
            "reboot_issued",
            "reboot_requested",
            "resv",
            "reserved",
        ),
        *("unk", "unknown", "err", "error", "inval", "cloud", "pow_dn", "pow_up", "rbt", "plnd", "invalid_reg"),
    }
)
"""Those of Slurm; nodes here are only ever in the first six."""
_LONG_STATES = {short: name for name, short in SHORT_STATES.items()}


@fails_as_slurm
def main(call: Call) -> int:
    """Run `sinfo`."""
    words = read_listing(call, TABLE)
    layout = _layout(words)
    chosen = _Choice.of(words)
    ordered = _order(words.value("sort"))
    every_s = parse_count(words.value("iterate")) if words.has("iterate") else 0
    with connected(call) as session:
        while True:
            if every_s:
                call.write(f"{datetime.fromtimestamp(time.time(), zone_of(call.env)):%a %b %e %H:%M:%S %Y}\n")
            _show(call, session, words, layout, ordered(chosen.rows(session)))
            if not every_s:
                return 0
            call.wait(every_s)
            call.write("\n")


def _show(call: Call, session: Session, words: GnuWords, layout: Layout[NodeGroup], rows: Iterable[NodeGroup]) -> None:
    if words.has("json"):
        for piece in node_pieces(rows, session.client.cluster().cluster):
            call.write(piece)
        return
    # A host is in several queues: where nothing of them is shown, it is told once.
    for line in dict.fromkeys(layout.lines(rows, header=not words.has("noheader"))):
        call.write(line)


def _layout(words: GnuWords) -> Layout[NodeGroup]:
    last = next((each for each in reversed(words.given) if each.name in ("format", "Format")), None)
    if last is not None and last.name == "Format":
        return by_names(last.value, NODE_BY_NAME)
    return by_letters(last.value if last is not None else _format(words), NODE_BY_LETTER)


def _format(words: GnuWords) -> str:
    is_long = words.has("long")
    if words.has("list-reasons"):
        return _REASONS_LONG if is_long else _REASONS
    if words.has("summarize"):
        return _SUMMARY
    if words.has("Node"):
        return _NODES_LONG if is_long else _NODES
    return _LONG if is_long else _DEFAULT


@dataclass(frozen=True, slots=True)
class _Choice:
    """Which nodes are shown, and how they are put together."""

    words: GnuWords
    partitions: frozenset[str]
    states: frozenset[str]
    nodes: frozenset[str] | None

    @staticmethod
    def of(words: GnuWords) -> _Choice:
        """Raises BadRequest."""
        named = words.value("states").lower().replace("&", ",").split(",")
        states = {_LONG_STATES.get(each.strip(), each.strip()) for each in named} - {"", "all"}
        unknown = states - _STATES
        if unknown:
            raise BadRequest(f'Bad state string: "{min(unknown)[:40]}"')
        if "drained" in states:
            states.add("draining")
        return _Choice(
            words,
            frozenset(name for name in words.value("partition").split(",") if name),
            frozenset(states),
            frozenset(expand_nodes(words.value("nodes"))) if words.has("nodes") else None,
        )

    def rows(self, session: Session) -> Iterator[NodeGroup]:
        """Raises BadRequest for a queue that nobody knows."""
        queues, hosts = session.client.queues(), session.client.hosts()
        view = session.client.cluster()
        default = (view.default_queue.split() or [""])[0]
        unknown = self.partitions - {queue.name for queue in queues}
        if unknown:
            raise BadRequest(f"Invalid partition specified: {min(unknown)[:60]}")
        for queue in queues:
            if self.partitions and queue.name not in self.partitions:
                continue
            groups = self._groups([host for host in hosts_of_queue(queue, hosts) if self._is_meant(host)])
            for (state, _), group in groups.items():
                for part in [(host,) for host in group] if self.words.has("Node") else [tuple(group)]:
                    yield NodeGroup(queue, queue.name == default, part, state, view.cluster)
            if not groups and not self.words.has("Node", "states", "responding", "dead", "nodes", "list-reasons"):
                yield NodeGroup(queue, queue.name == default, (), "n/a", view.cluster)

    def _is_meant(self, host: HostView) -> bool:
        state = node_state(host)
        if (self.nodes is not None and host.name not in self.nodes) or (self.states and state not in self.states):
            return False
        if self.words.has("list-reasons") and state not in CLOSED:
            return False
        return not (self.words.has("responding") and state == "down") and (
            not self.words.has("dead") or state == "down"
        )

    def _groups(self, hosts: Iterable[HostView]) -> Mapping[tuple[str, str], list[HostView]]:
        """(state, kind) -> hosts; all together with --summarize."""
        found: dict[tuple[str, str], list[HostView]] = {}
        for host in hosts:
            state = "" if self.words.has("summarize") else node_state(host)
            kind = host.comment if self.words.has("list-reasons") else ""
            if self.words.has("exact"):
                kind = " ".join(NODE_BY_LETTER[letter].value(_alone(host)) for letter in "cmdGf")
            found.setdefault((state, kind), []).append(host)
        return found


def _alone(host: HostView) -> NodeGroup:
    """A line of fields that the host alone has."""
    return NodeGroup(QueueView(name="", priority=0), False, (host,), "")


def _order(text: str) -> Callable[[Iterable[NodeGroup]], Iterable[NodeGroup]]:
    fields: list[tuple[str, bool]] = []
    for item in filter(None, text.replace("#", "").split(",")):
        letter = item.lstrip("+-")
        if letter not in NODE_BY_LETTER:
            raise BadRequest(f"Invalid sort specification: {item[:40]}")
        fields.append((letter, item.startswith("-")))

    def ordered(rows: Iterable[NodeGroup]) -> Iterable[NodeGroup]:
        if not fields:
            return rows
        found = list(rows)
        for letter, is_reversed in reversed(fields):
            found.sort(key=partial(_sort_key, letter), reverse=is_reversed)
        return found

    return ordered


def _sort_key(letter: str, row: NodeGroup) -> tuple[int, str]:
    text = NODE_BY_LETTER[letter].value(row)
    return int(text) if text.isascii() and text.isdigit() else 0, text
