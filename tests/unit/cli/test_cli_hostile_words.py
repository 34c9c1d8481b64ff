"""Command lines that people get wrong, thrown at Slurm's and PBS's commands with a master behind them.

Each ends with an exit code, and each thing that is wrong is one line that begins with the command's name.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_master import FakeCall, FakeMaster, allocation, spec
from test_cli_gjobs import pending, running

from gsched.base.ids import element_id
from gsched.cli.pbs import pbs_job_commands, pbsnodes, qalter, qdel, qselect, qstat, queue_commands, tracejob
from gsched.cli.render.text.text_columns import printable
from gsched.cli.session.call import Cancelled
from gsched.cli.slurm import salloc, sbatch, scancel, sinfo, squeue, srun
from gsched.cli.slurm.accounting import sacct, sacctmgr, sshare, sstat
from gsched.cli.slurm.control import scontrol
from gsched.cli.slurm.others import sattach, sprio
from gsched.dialect.pbs.letter_options import LetterOptions
from gsched.dialect.slurm.gnu_options import GnuOptions
from gsched.model.jobs.job import PBS, SLURM, AttemptResult
from gsched.model.views.view import HostView, QueueView
from tests.support.hostile_words import HostileWords, at_most

FEW, MANY = 200, 30_000
MOST_STEPS = 1_500_000
LONGEST = 1000

_JOBS = ("8", "9", "13", "13_2", "13[1].firestone", "13[]", "8.firestone", "99", "8.batch")
_SHOW = ("job", "node", "partition", "hostnames", "hostlist", "config", "reservation", "step", "licenses", "n[1-3]")
_UPDATES = ("JobId=9", "TimeLimit=1:00", "NodeName=ubuntu02", "State=DRAIN", "Reason=x")
COMMANDS: dict[str, tuple[LetterOptions | GnuOptions, tuple[str, ...], tuple[str, ...]]] = {
    "squeue": (squeue.TABLE, (), ()),
    "scancel": (scancel.TABLE, (), _JOBS),
    "sinfo": (sinfo.TABLE, (), ()),
    "sacct": (sacct.TABLE, (), ()),
    "sstat": (sstat.TABLE, (), ()),
    "sshare": (sshare.TABLE, (), ()),
    "sprio": (sprio.TABLE, (), ()),
    "sattach": (sattach.TABLE, (), _JOBS),
    "sacctmgr": (sacctmgr.TABLE, ("show",), ("user", "account", "cluster", "qos", "format=Cluster", "where")),
    "scontrol show": (scontrol.TABLE, ("show",), (*_SHOW, *_JOBS)),
    "scontrol update": (
        scontrol.TABLE,
        ("update",),
        ("JobId=9", "TimeLimit=1:00", "NodeName=ubuntu02", "State=DRAIN", "Reason=x"),
    ),
    "scontrol hold": (scontrol.TABLE, ("hold",), _JOBS),
    "scontrol requeue": (scontrol.TABLE, ("requeue",), _JOBS),
    "scontrol": (scontrol.TABLE, (), ("ping", "version", "write", "listpids", "top", "release", "suspend", *_JOBS)),
    "sbatch": (sbatch.TABLE, (), ("--test-only",)),
    "srun": (srun.TABLE, (), ()),
    "salloc": (salloc.TABLE, (), ()),
    "qstat": (qstat.TABLE, (), (*_JOBS, "normal")),
    "qdel": (qdel.TABLE, (), _JOBS),
    "qalter": (qalter.TABLE, (), _JOBS),
    "qselect": (qselect.TABLE, (), ()),
    "qhold": (pbs_job_commands.QHOLD, (), _JOBS),
    "qrls": (pbs_job_commands.QRLS, (), _JOBS),
    "qsig": (pbs_job_commands.QSIG, (), _JOBS),
    "qrerun": (pbs_job_commands.QRERUN, (), _JOBS),
    "qmove": (pbs_job_commands.QMOVE, ("normal",), _JOBS),
    "qmsg": (pbs_job_commands.QMSG, ("text",), _JOBS),
    "qorder": (queue_commands.QORDER, (), _JOBS),
    "qrun": (queue_commands.QRUN, (), _JOBS),
    "pbsnodes": (pbsnodes.TABLE, (), ("ubuntu02", "n1")),
    "tracejob": (tracejob.TABLE, (), _JOBS),
}
"""Command -> its options, words that stand first, and words that make sense behind them."""


class HostileCall(FakeCall):
    """One that is interrupted where it would go on for ever."""

    def wait(self, seconds: float) -> None:
        raise Cancelled


@pytest.fixture
def busy(master: FakeMaster) -> FakeMaster:
    """A master with jobs of all three dialects, and a host. It takes no job: nothing is waited for."""
    slurm = spec("x", front_end=SLURM, indices="1-3", index_shift=1, name="an array")
    asked = ("select=2:ncpus=3:ngpus=1", "walltime=60")
    pbs = spec("x", front_end=PBS, front_end_words=asked, slots=6, run_limit_s=60, dependency="done(8)")
    master.views = [
        running(8, spec=spec("train.sh", user="test"), allocation=allocation(slots=4)),
        pending(9, spec=pbs),
        *(pending(element_id(13, index), spec=slurm) for index in (1, 2, 3)),
        running(14, spec=pbs, state="EXIT", result=AttemptResult(exit_code=3), finished_at=1499222099.0),
    ]
    master.host_views = [HostView(name="ubuntu02", status="ok", max_slots=4, ncpus=4, max_mem_mib=2048.0)]
    master.queue_views = [QueueView(name="normal", priority=30)]
    master.refusal = "this master takes no job"
    return master


def throw(folder: Path, seed: int) -> bool:
    """Whether the command of this seed had nothing to say against it."""
    command, (table, first, operands) = list(COMMANDS.items())[seed % len(COMMANDS)]
    name = command.split()[0]
    words = HostileWords(f"{command} {seed}")
    is_pbs = isinstance(table, LetterOptions)
    line = words.line(table.options, operands, one_letter=is_pbs) if table.options else []
    # What an operating system hands over holds no NUL.
    argv = [name, *(word.replace("\0", "") for word in (*first, *line))]
    call = HostileCall(argv, folder)
    call.stdin = words.script({"#PBS" if is_pbs else "#SBATCH": table.options or qdel.TABLE.options})
    try:
        with at_most(MOST_STEPS):
            code = call.run()
        check(name, code, b"".join(call._pieces[2]))
    except BaseException as problem:
        problem.add_note(f"seed {seed}: {argv}")
        raise
    return code == 0


def check(name: str, code: int, said: bytes) -> None:
    """Each line of what is said begins with the command's name, and none tells of a fault of gsched."""
    assert 0 <= code < 256
    for line in said.decode().split("\n")[:-1]:
        assert line.startswith((f"{name}: ", "Usage", "usage")) and len(line) <= LONGEST and line == printable(line), (
            repr(line)
        )
        assert "internal error" not in line and "Traceback" not in line, line


def test_hundreds_of_hostile_command_lines(busy: FakeMaster, folder: Path) -> None:
    good = sum(throw(folder, seed) for seed in range(FEW))
    assert FEW / 20 < good < FEW * 19 / 20  # else they are too hostile, or not at all


@pytest.mark.nightly
def test_tens_of_thousands_of_them(busy: FakeMaster, folder: Path) -> None:
    for seed in range(FEW, MANY):
        throw(folder, seed)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("sbatch", "-p", "nowhere"), "sbatch: error: Batch job submission failed: nowhere: No such queue\n"),
        (("qsub", "-q", "nowhere"), "qsub: nowhere: No such queue\n"),
        (("qsub", "-W", "depend=afterok:13[0-99999999]"), "qsub: -W: illegal -W value: Job array index error: "),
        (("sbatch", "-d", "afterok:13_[0-99999999]"), "sbatch: error: -d: Job array index error: "),
    ],
)
def test_what_only_the_master_knows(master: FakeMaster, folder: Path, words: tuple[str, ...], said: str) -> None:
    master.no_queues = ("nowhere",)
    call = HostileCall([*words], folder)
    call.stdin = b"#!/bin/sh\necho\n"
    assert call.run() and call.err.startswith(said) and call.err.count("\n") == 1
