"""`sacctmgr`: what Slurm's clients ask it for: the cluster, users, QOS, trackable resources. It changes nothing.

There are no associations: a job may name any project, and that no row is shown means so. Source: sacctmgr(1) of Slurm
22.05.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gsched.base.errors import BadRequest
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import read_words
from gsched.cli.session.session import Session, connected
from gsched.cli.slurm.accounting.field_tables import AccountingTable, TableField, by_name
from gsched.cli.slurm.slurm_call import fails_as_slurm
from gsched.dialect.slurm.gnu_options import VERBOSE, GnuOption, GnuOptions, general, refused

TABLE = GnuOptions(
    summary="show the cluster, users and QOS, as Slurm's sacctmgr does; it changes nothing",
    operands="show|list cluster|user|account|association|qos|tres [NAME ...] [format=FIELDS]",
    options=(
        GnuOption("noheader", "n", help="no heading"),
        GnuOption("parsable", "p", help="fields between |, and one behind the last"),
        GnuOption("parsable2", "P", help="fields between |"),
        GnuOption("associations", "s", help="with users: their associations (there are none)"),
        GnuOption("immediate", "i", help="taken: nothing is changed"),
        GnuOption("quiet", "Q", help="taken, and says no less"),
        GnuOption("readonly", "r", help="taken: nothing is changed"),
        VERBOSE,
        *general(),
        *refused("json", "yaml", because="-P is there"),
    ),
    interspersed=True,
    examples=("PROGRAM -nP show cluster format=cluster", "PROGRAM list user ann format=user,adminlevel"),
)
_CHANGES = (
    "add",
    "archive",
    "clear",
    "create",
    "delete",
    "dump",
    "load",
    "modify",
    "reconfigure",
    "remove",
    "shutdown",
)
_REFUSED: Mapping[str, str] = {
    "config": "gparams and gadmin showconf show the configuration",
    "configuration": "gparams and gadmin showconf show the configuration",
    "event": "gadmin shows what happened to hosts",
    "federation": "there is one cluster",
    "problem": "there are no associations",
    "resource": "scontrol show licenses shows shared resources",
    "runawayjobs": "gadmin orphans shows attempts that no record tells of",
    "stats": "gsched status shows the state of the master",
    "transactions": "the audit log tells who did what",
    "wckey": "there are no wckeys",
}


@dataclass(frozen=True, slots=True)
class ManagedRow:
    """A row: a name and what goes with it."""

    values: Mapping[str, str]


def _field(name: str, width: int, key: str = "") -> TableField[ManagedRow]:
    return TableField(name, width, lambda row: row.values.get(key or name.lower(), ""))


MANAGED_FIELDS = by_name(
    (
        *(_field("Cluster", 10), _field("ControlHost", 15), _field("ControlPort", 12), _field("RPC", 5)),
        *(_field("User", 10), _field("DefaultAccount", 14), _field("AdminLevel", 10), _field("Account", 10)),
        *(_field("Descr", 20), _field("Org", 20), _field("Partition", 10), _field("Share", 9), _field("QOS", 20)),
        *(_field("DefaultQOS", 10), _field("Name", 10), _field("Priority", 10), _field("GraceTime", 10)),
        *(_field("Preempt", 10), _field("PreemptMode", 11), _field("Flags", 20), _field("UsageFactor", 11)),
        *(_field("MaxJobs", 7), _field("MaxTRES", 13), _field("MaxWall", 11), _field("MaxSubmit", 9)),
        *(_field("MaxTRESPerUser", 13), _field("MaxJobsPU", 9), _field("MaxSubmitPU", 11), _field("GrpTRES", 13)),
        *(_field("GrpJobs", 7), _field("GrpSubmit", 9), _field("GrpWall", 11), _field("GrpTRESMins", 13)),
        *(_field("ID", 6), _field("ParentName", 10), _field("LFT", 6), _field("RGT", 6), _field("Coordinators", 20)),
        *(
            _field("WCKeys", 20),
            _field("DefaultWCKey", 12),
            _field("TRES", 20),
            _field("NodeCount", 9),
            _field("Type", 8),
        ),
        *(_field("ClusterNodes", 20), _field("Classification", 14), _field("Fairshare", 9)),
    )
)
_ALSO = {"defaultacc": "defaultaccount", "defacct": "defaultaccount", "admin": "adminlevel", "defqos": "defaultqos"}


def _clusters(session: Session, names: Sequence[str], call: Call) -> Iterator[ManagedRow]:
    view = session.client.cluster()
    if not names or view.cluster in names:
        yield ManagedRow({"cluster": view.cluster, "controlhost": view.master_host, "share": "1", "qos": "normal"})


def _users(session: Session, names: Sequence[str], call: Call) -> Iterator[ManagedRow]:
    administrators = session.client.cluster().administrators
    for name in names or (call.user,):
        level = "Administrator" if name in administrators else "None"
        yield ManagedRow({"user": name, "adminlevel": level})


def _none(session: Session, names: Sequence[str], call: Call) -> Iterator[ManagedRow]:
    return iter(())


def _qos(session: Session, names: Sequence[str], call: Call) -> Iterator[ManagedRow]:
    if not names or "normal" in names:
        yield ManagedRow({"name": "normal", "priority": "0", "gracetime": "00:00:00", "usagefactor": "1.000000"})


def _tres(session: Session, names: Sequence[str], call: Call) -> Iterator[ManagedRow]:
    kinds = (("cpu", ""), ("mem", ""), ("node", ""), ("billing", ""), ("gres", "gpu"))
    for number, (kind, name) in enumerate(kinds, start=1):
        if not names or kind in names:
            yield ManagedRow({"type": kind, "name": name, "id": str(number)})


Rows = Callable[[Session, Sequence[str], Call], Iterator[ManagedRow]]
_ENTITIES: Mapping[str, tuple[Rows, str]] = {
    "account": (_none, "account,descr,org"),
    "association": (_none, "cluster,account,user,partition,share,qos"),
    "cluster": (_clusters, "cluster,controlhost,controlport,rpc,share,qos,defaultqos"),
    "qos": (_qos, "name,priority,gracetime,preempt,preemptmode,flags,usagefactor,grptres,maxtres,maxwall"),
    "tres": (_tres, "type,name,id"),
    "user": (_users, "user,defaultaccount,adminlevel"),
}


@fails_as_slurm
def main(call: Call) -> int:
    """Run `sacctmgr`."""
    words = read_words(call, TABLE)
    verb, *rest = words.rest or ("",)
    if verb.lower() in _CHANGES:
        raise BadRequest(
            f"{verb}: users and projects are not registered: limits and shares are in the configuration files"
        )
    if verb.lower() not in ("show", "list"):
        raise BadRequest(f"'{verb[:40]}': show and list are there")
    rows, default = _entity(rest[0] if rest else "")
    names, text = _operands(rest[1:])
    if words.has("associations") and rows is _users:
        rows, default = _ENTITIES["association"]
    table = AccountingTable(text or default, MANAGED_FIELDS, _ALSO)
    with connected(call) as session:
        for line in table.lines(rows(session, names, call), words):
            call.write(line)
    return 0


def _entity(word: str) -> tuple[Rows, str]:
    name = word.lower()
    known = {**_REFUSED, **_ENTITIES}
    found = [each for each in known if len(name) > 2 and (each.startswith(name) or name in (f"{each}s", f"{each}es"))]
    if not found:
        raise BadRequest(f"No valid entity in list command: {', '.join(_ENTITIES)} are shown")
    if found[0] in _REFUSED:
        raise BadRequest(f"{found[0]}: {_REFUSED[found[0]]}")
    return _ENTITIES[found[0]]


def _operands(words: Sequence[str]) -> tuple[list[str], str]:
    """Names, and fields of format=. `where` may stand before them, and `user=ann` names as `ann` does."""
    names: list[str] = []
    text = ""
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            names += [] if word.lower() == "where" else [each for each in word.split(",") if each]
        elif key.lower() in ("format", "fo", "form"):
            text = value
        elif key.lower() in ("name", "names", "user", "users", "cluster", "clusters", "type"):
            names += [each for each in value.split(",") if each]
        elif key.lower() not in ("account", "accounts", "partition", "partitions", "qos"):
            raise BadRequest(f"Unknown condition: {word[:40]}")
    return names, text
