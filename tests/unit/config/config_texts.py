"""A small configuration that loads, and a way to change files of it."""

from __future__ import annotations

from collections.abc import Callable

from gsched.base.errors import Problem
from gsched.config.configuration import check_texts
from gsched.model.config import ClusterConfig

BASE = {
    "lsf.conf": "LSB_SHAREDIR=/var/lib/g\nLSF_LOGDIR=/var/log/g\nLSF_SERVERDIR=/usr/libexec/g\n",
    "lsf.shared": (
        "Begin Cluster\nClusterName\nc1\nEnd Cluster\n"
        "Begin HostModel\nMODELNAME CPUFACTOR ARCHITECTURE\nfast 2.5 ()\nEnd HostModel\n"
        "Begin HostType\nTYPENAME\nLINUX64\nEnd HostType\n"
        "Begin Resource\nRESOURCENAME TYPE INTERVAL INCREASING CONSUMABLE DESCRIPTION\n"
        "gpu Boolean () () () (has GPUs)\n"
        "scratch Numeric 30 N Y (free GB)\n"
        "tokens Numeric () N N (of all hosts)\n"
        "lic Numeric () N Y (per host)\n"
        "fabric String () () () (network)\n"
        "End Resource\n"
    ),
    "lsf.cluster.c1": (
        "Begin ClusterAdmins\nADMINISTRATORS = adm\nEnd ClusterAdmins\n"
        "Begin Host\nHOSTNAME model type server RESOURCES\n"
        "h1 fast LINUX64 1 (gpu fabric=ib)\n"
        "h2 ! ! 1 ()\n"
        "h3 ! ! 1 ()\n"
        "client ! ! 0 ()\n"
        "End Host\n"
        "Begin ResourceMap\nRESOURCENAME LOCATION\nscratch ([default])\nEnd ResourceMap\n"
    ),
    "lsb.params": "Begin Parameters\nDEFAULT_QUEUE = normal\nEnd Parameters\n",
    "lsb.queues": "Begin Queue\nQUEUE_NAME = normal\nPRIORITY = 30\nEnd Queue\n",
    "lsb.hosts": "Begin Host\nHOST_NAME MXJ JL/U\ndefault ! ()\nEnd Host\n",
    "lsb.users": "Begin User\nUSER_NAME MAX_JOBS JL/P\ndefault () -\nEnd User\n",
}


class Checked:
    """The outcome of checking BASE with some files replaced; paths are relative to the folder."""

    def __init__(self, config: ClusterConfig | None, problems: list[Problem]) -> None:
        self.config = config
        self.errors = [str(p).replace("/conf/", "") for p in problems if p.severity == "error"]
        self.notes = [str(p).replace("/conf/", "") for p in problems if p.severity == "note"]


def check(
    changes: dict[str, str | None] | None = None, hostname: str = "", has_account: Callable[[str], bool] | None = None
) -> Checked:
    """Check BASE with `changes`: file name -> its whole text, or None to leave the file out."""
    texts = {name: text for name, text in {**BASE, **(changes or {})}.items() if text is not None}
    loaded = check_texts("/conf", texts, hostname, has_account)
    assert (loaded.config is None) == any(p.severity == "error" for p in loaded.problems)
    return Checked(loaded.config, loaded.problems)


def with_lines(name: str, *lines: str) -> dict[str, str | None]:
    """A change that appends `lines` to a file of BASE."""
    return {name: BASE[name] + "".join(f"{line}\n" for line in lines)}


def line_after(name: str) -> int:
    """Number of the first line that `with_lines` adds to the file."""
    return BASE[name].count("\n") + 1
