"""`sshare`: shares and use in queues with fairshare, as Slurm's command of that name shows associations.

Shares belong to users and groups of a queue; a project (account) has none. Source: sshare(1) of Slurm 22.05.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gsched.cli.session.call import Call
from gsched.cli.session.session import connected
from gsched.cli.slurm.accounting.field_tables import PARSABLE, AccountingTable, TableField, by_name, field_names
from gsched.cli.slurm.slurm_call import fails_as_slurm, read_listing
from gsched.dialect.slurm.gnu_options import VERBOSE, GnuOption, GnuOptions, GnuWords, general
from gsched.model.views.view import QueueView, ShareView

TABLE = GnuOptions(
    summary="show shares and use in queues with fairshare, as Slurm's sshare does",
    operands="",
    options=(
        GnuOption("users", "u", "NAMES", "only these users"),
        GnuOption("Users", "U", help="users alone: of you, or those of -u or -a"),
        GnuOption("all", "a", help="all users"),
        GnuOption("accounts", "A", "NAMES", "taken: projects have no shares"),
        GnuOption("partition", "m", help="taken: shares are always those of a queue"),
        GnuOption("long", "l", help="more fields"),
        GnuOption("format", "o", "FIELDS", "what is shown, such as User,RawUsage%20"),
        GnuOption("helpformat", "e", help="the fields of --format"),
        *PARSABLE,
        GnuOption("clusters", "M", "NAMES", "taken: there is one cluster", also=("cluster",)),
        VERBOSE,
        *general(""),
    ),
    interspersed=True,
    examples=("PROGRAM", "PROGRAM -al", "PROGRAM -U --format User,Partition,FairShare"),
)
_SHORT = "account,user,partition,rawshares,normshares,rawusage,effectvusage,fairshare"
_LONG = "account,user,partition,rawshares,normshares,rawusage,normusage,effectvusage,fairshare,levelfs"


@dataclass(frozen=True, slots=True)
class ShareRow:
    """A user, or a group, in a queue; `shares` and `used_s` of all beside it."""

    queue: str
    share: ShareView
    shares: int
    used_s: float
    is_user: bool

    @property
    def usage(self) -> float:
        """CPU and run time, decayed."""
        return self.share.cpu_s + self.share.run_s

    @property
    def norm_shares(self) -> float:
        """Its part of the shares."""
        return self.share.shares / self.shares if self.shares else 0.0

    @property
    def norm_usage(self) -> float:
        """Its part of the use."""
        return self.usage / self.used_s if self.used_s else 0.0


def _field(name: str, width: int, value: Callable[[ShareRow], str]) -> TableField[ShareRow]:
    return TableField(name, width, value)


SSHARE_FIELDS = by_name(
    (
        _field("Account", -20, lambda row: ""),
        _field("User", 10, lambda row: row.share.name),
        _field("RawShares", 10, lambda row: str(row.share.shares)),
        _field("NormShares", 11, lambda row: f"{row.norm_shares:.6f}"),
        _field("RawUsage", 11, lambda row: f"{row.usage:.0f}"),
        _field("NormUsage", 11, lambda row: f"{row.norm_usage:.6f}"),
        _field("EffectvUsage", 13, lambda row: f"{row.norm_usage:.6f}"),
        _field("FairShare", 10, lambda row: f"{row.share.priority:.6f}"),
        _field("LevelFS", 10, lambda row: f"{row.norm_shares / row.norm_usage:.6f}" if row.norm_usage else "inf"),
        _field("GrpTRESMins", 30, lambda row: ""),
        _field("GrpTRESRaw", 30, lambda row: ""),
        _field("TRESRunMins", 30, lambda row: ""),
        _field("Partition", 12, lambda row: row.queue),
    )
)


@fails_as_slurm
def main(call: Call) -> int:
    """Run `sshare`."""
    words = read_listing(call, TABLE)
    if words.has("helpformat"):
        call.write(field_names(SSHARE_FIELDS))
        return 0
    text = words.value("format") or (_LONG if words.has("long") else _SHORT)
    table = AccountingTable(text, SSHARE_FIELDS)
    users = {name for name in words.value("users").split(",") if name} or {call.user}
    with connected(call) as session:
        queues = session.client.queues()
    rows = (row for queue in queues for row in _rows(queue) if _is_meant(row, words, users))
    for line in table.lines(rows, words):
        call.write(line)
    return 0


def _rows(queue: QueueView) -> Iterator[ShareRow]:
    groups = {share.path for share in queue.shares}
    for share in queue.shares:
        beside = [each for each in queue.shares if each.path == share.path]
        used = sum(each.cpu_s + each.run_s for each in beside)
        is_user = f"{share.path}{share.name}/" not in groups
        yield ShareRow(queue.name, share, sum(each.shares for each in beside), used, is_user)


def _is_meant(row: ShareRow, words: GnuWords, users: set[str]) -> bool:
    if not row.is_user:
        return not words.has("Users")
    return words.has("all") or row.share.name in users
