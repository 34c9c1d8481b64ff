"""PBS's commands that change jobs, list nodes and select, against a master: what they ask, print, and exit with."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from fake_master import FakeCall, FakeMaster, allocation, spec
from test_cli_gjobs import pending, running

from gsched import command_table
from gsched.cli import registry
from gsched.cli.pbs import pbs_job_commands, pbsnodes, qalter, qdel, qselect, qstat, queue_commands, tracejob
from gsched.cli.pbs.pbsnodes import PbsNode
from gsched.cli.pbs.refused_commands import INSTEAD
from gsched.dialect.pbs.letter_options import LetterOptions
from gsched.model.views.view import Control, HostView
from gsched.wire.v1 import scheduler_pb2

NewCall = Callable[..., FakeCall]
LISTS = {
    "qstat": (qstat.TABLE, "ainpqrstwxu:fGHJMQEBW:T1F:D:", "acCeE:filn1pqrstu:xGMQRBW:"),
    "qdel": (qdel.TABLE, "W:x", "ab:cm:pW:t:"),
    "qalter": (qalter.TABLE, "a:A:c:e:h:j:k:l:m:M:N:o:p:r:R:S:u:W:P:", "a:A:c:e:h:j:k:l:L:m:M:n:N:o:p:qr:S:t:u:v:W:x:"),
    "qhold": (pbs_job_commands.QHOLD, "h:", "h:t:"),
    "qrls": (pbs_job_commands.QRLS, "h:", "h:t:"),
    "qsig": (pbs_job_commands.QSIG, "s:", "as:"),
    "qrerun": (pbs_job_commands.QRERUN, "W:", "m:f"),
    "qmsg": (pbs_job_commands.QMSG, "EO", "EO"),
    "qorder": (queue_commands.QORDER, "", ""),
    "qrun": (queue_commands.QRUN, "aH:", "acH:"),
    "qselect": (qselect.TABLE, "a:A:c:h:HJl:N:p:q:r:s:t:Tu:xP:", "a:A:ec:h:l:N:p:q:r:s:u:"),
    "pbsnodes": (pbsnodes.TABLE, "acC:dD:F:HjlLoqrs:Sv", "acdlm:opqrs:xN:A:n"),
    "tracejob": (tracejob.TABLE, "zvamslw:p:n:f:c:", ""),
}
"""Command -> its table, and the lists of options of OpenPBS and of Torque."""
OTHERWISE = {("qstat", "E"), ("pbsnodes", "C")}
"""Options whose value one of the two systems has and the other has not, or that mean something else there."""


@pytest.mark.parametrize("name", LISTS)
def test_each_table_goes_through_both_manuals_lists(name: str) -> None:
    table, *lists = LISTS[name]
    options = {option.letter: option for option in table.options}
    for text in lists:
        for place, letter in enumerate(text):
            if letter != ":" and (name, letter) not in OTHERWISE:
                assert bool(options[letter].value) == (text[place + 1 : place + 2] == ":"), letter
    assert len(options) == len(table.options)
    assert all(option.help or option.refused for option in table.options)
    assert all(f"  -{option.letter} " in table.help(name) for option in table.options if not option.refused)


def test_every_command_of_pbs_is_there_or_refused_by_name(call: NewCall) -> None:
    names = {name for name, *_ in command_table.PBS_COMMANDS}
    assert names >= {*LISTS, *INSTEAD, "qsub", "qmove", "qenable", "qdisable", "qstart", "qstop"}
    for name in names:
        assert callable(registry.load(name))
    for name, instead in INSTEAD.items():
        asked = call(name, "12")
        assert asked.run() == 1 and asked.err == f"{name}: is not supported: {instead}\n"


@pytest.mark.parametrize("name", [name for name, *_ in command_table.PBS_COMMANDS])
def test_help_and_a_wrong_option(master: FakeMaster, call: NewCall, name: str) -> None:
    master.views = []
    asked = call(name, "--help")
    assert asked.run() == 0 and name in asked.out
    wrong = call(name, "-?")
    assert wrong.run() in (1, 2) and wrong.err.count("\n") == 1


def test_qselect(master: FakeMaster, call: NewCall) -> None:
    master.views = [
        running(8, spec=spec("x", name="one", slots=8), allocation=allocation(slots=8)),
        pending(9, spec=spec("x", name="two", slots=2)),
    ]
    for words, ids in (
        ((), ["8", "9"]),
        (("-s", "Q"), ["9"]),
        (("-l", "ncpus.ge.4"), ["8"]),
        (("-l", "ncpus<4"), ["9"]),
        (("-N", "two"), ["9"]),
        (("-u", "nobody_"), []),
        (("-t", "q.gt.200001010000"), ["8", "9"]),
    ):
        asked = call("qselect", *words)
        assert asked.run() == 0
        assert [line.partition(".")[0] for line in asked.out.splitlines()] == ids, words


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("qselect", "-s", "Z"), "qselect: illegal -s value: 'Z'"),
        (("qselect", "-l", "x"), "qselect: illegal -l value: 'x' is not NAME.OP.VALUE"),
        (("qselect", "-t", "z1200"), "qselect: illegal -t value"),
        (("qselect", "job"), "qselect: 'job' is no option"),
        (("qhold",), "qhold: no job is named"),
        (("qhold", "-h", "z", "8"), "qhold: illegal -h value"),
        (("qalter", "8"), "qalter: nothing to change"),
        (("qalter", "-l", "walltime=x", "8"), "qalter: illegal -l value"),
        (("qalter", "-S", "/bin/sh", "8"), "qalter: -S: the script was read"),
        (("qmove", "night"), "qmove: usage"),
        (("qmsg", "text"), "qmsg: usage"),
        (("qrerun", "-W", "x", "8"), "qrerun: illegal -W value"),
        (("qdel", "-W", "delay=x", "8"), "qdel: illegal -W value: 'x': force, delay=N (N up to 86400)"),
        (("qdel", "-W", "delay=86401", "8"), "qdel: illegal -W value: '86401'"),
        (("qorder", "8"), "qorder: usage: qorder JOB JOB"),
        (("qorder", "8", "9[1-2]"), "qorder: illegally formed job identifier: 9[1-2]: one job, element or array each"),
        (("qrun", "-H", "", "8"), "qrun: illegal -H value: ''"),
        (("qrun", "-H", "(n1:ncpus=2)", "8"), "qrun: illegal -H value: '(n1:ncpus=2)': names of hosts"),
        (("qenable",), "qenable: usage"),
        (("tracejob", "-n", "x", "8"), "tracejob: illegal -n value"),
    ],
)
def test_what_is_wrong_is_one_line(master: FakeMaster, call: NewCall, words: tuple[str, ...], said: str) -> None:
    master.views = [pending(8)]
    asked = call(*words)
    assert asked.run() in (2, 166)
    assert asked.err.startswith(said) and asked.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("-N", "x", "-l", "walltime=60"), "Job_Name"),
        (("-l", "ncpus=2,walltime=60", "-o", "f", "-e", "g"), "Resource_List.ncpus, Output_Path, Error_Path"),
        (("-l", "select=1:ncpus=2", "-A", "p", "-m", "a", "-M", "a@b"), "Resource_List.select, Account_Name"),
        (("-W", "depend=afterok:1,stagein=a@localhost:b", "-a", "1200"), "depend, stagein, Execution_Time"),
        (("-p", "5", "-j", "oe", "-k", "o", "-h", "u"), "Hold_Types, Join_Path, Keep_Files"),
    ],
)
def test_what_of_a_job_that_runs_cannot_be_altered(
    master: FakeMaster, call: NewCall, words: tuple[str, ...], named: str
) -> None:
    master.views = [running(8)]
    asked = call("qalter", *words, "8")
    assert asked.run() == 167
    assert asked.err.startswith(f"qalter: Cannot modify attribute while job running  {named}")
    assert asked.err.endswith(" 8.firestone\n") and asked.err.count("\n") == 1
    assert not any(isinstance(each, scheduler_pb2.ModifyRequest) for each in master.requests)


def test_what_of_a_job_that_runs_can_be_altered(master: FakeMaster, call: NewCall) -> None:
    master.views = [running(8)]
    asked = call("qalter", "-l", "walltime=60,cput=30", "-r", "n", "-p", "0", "8")
    assert (asked.run(), asked.err) == (0, "")
    (request,) = [each for each in master.requests if isinstance(each, scheduler_pb2.ModifyRequest)]
    assert set(request.fields) == {"run_limit_s", "limits", "rerunnable"}


@pytest.mark.parametrize(
    ("about", "kind", "code"),
    [
        (("run_limit_s",), "INVALID_ARGUMENT", 188),
        (("dependency",), "INVALID_ARGUMENT", 206),
        (("name",), "INVALID_ARGUMENT", 166),
        (("slots",), "FAILED_PRECONDITION", 168),
        ((), "PERMISSION_DENIED", 159),
        ((), "", 168),
    ],
)
def test_the_exit_code_is_that_of_what_is_refused_however_it_is_worded(
    master: FakeMaster, call: NewCall, about: tuple[str, ...], kind: str, code: int
) -> None:
    master.views = [pending(8)]
    master.refused = Control(job_id=0, error="permission for no such queue.", about=about, refused_as=kind)
    asked = call("qalter", "-l", "walltime=60", "8")
    assert (asked.run(), asked.err) == (code, "qalter: permission for no such queue 8.firestone\n")


def test_a_note_of_the_master_is_called_a_warning_once(master: FakeMaster, call: NewCall) -> None:
    submitted = call("qsub")
    submitted.stdin = b"#!/bin/sh\nsleep 9 &\n"
    assert submitted.run() == 0
    (said,) = submitted.err.splitlines()
    assert said.startswith("qsub: warning: the command ends in &")


def test_a_priority_where_there_are_none_is_noted(master: FakeMaster, call: NewCall) -> None:
    master.views = [pending(8)]
    said = "warning: -p 10: taken, and does nothing: this cluster has no priorities of jobs (MAX_USER_PRIORITY)\n"
    submitted, altered, by_gsub = (
        call("qsub", "-p", "10"),
        call("qalter", "-p", "10", "-N", "x", "8"),
        call("gsub", "f"),
    )
    submitted.stdin = b"#!/bin/sh\necho\n"
    by_gsub.files["f"] = b"#!/bin/sh\n#PBS -p 10\necho\n"
    assert (submitted.run(), submitted.err) == (0, f"qsub: {said}")
    assert (altered.run(), altered.err) == (0, f"qalter: {said}")
    assert by_gsub.run() == 0 and said.partition(": ")[2] in by_gsub.err
    assert [each.spec.priority for each in master.submissions] == [None, None]


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ((), ("kill", 0, None)),
        (("-W", "delay=90"), ("kill", 0, 90)),
        (("-W", "0"), ("kill", 0, 0)),
        (("-W", "suppress_email=1"), ("kill", 0, None)),
        (("-W", "force"), ("signal", 9, None)),
        (("-p",), ("signal", 9, None)),
        (("-p", "-W", "delay=90"), ("signal", 9, None)),
    ],
)
def test_how_qdel_ends_jobs(
    master: FakeMaster, call: NewCall, words: tuple[str, ...], asked: tuple[str, int, int | None]
) -> None:
    master.views = [running(8)]
    ended = call("qdel", *words, "8")
    assert (ended.run(), ended.err) == (0, "")
    (request,) = [each for each in master.requests if isinstance(each, scheduler_pb2.ControlRequest)]
    delay = request.kill_delay_s if request.HasField("kill_delay_s") else None
    assert (request.action, request.signal, delay) == asked


def test_two_jobs_change_places_and_one_is_started(master: FakeMaster, call: NewCall) -> None:
    master.views = [pending(8), pending(9)]
    ordered, started = call("qorder", "9.firestone", "8"), call("qrun", "-H", "n1+n2", "8", "9")
    assert (ordered.run(), ordered.out, ordered.err) == (0, "", "")
    assert (started.run(), started.err) == (0, "")
    assert call("qrun", "8").run() == 0
    assert [(action, ids) for action, ids, *_ in master.controls] == [
        ("exchange", (9, 8)),
        ("run", (8,)),
        ("run", (9,)),
        ("run", (8,)),
    ]
    hosts = [each.hosts for each in master.requests if getattr(each, "action", "") == "run"]
    assert hosts == [["n1", "n2"], ["n1", "n2"], []], "without -H the master chooses"
    unknown, refused = call("qorder", "8", "99"), call("qorder", "8", "9")
    assert unknown.run() == 153 and unknown.err == "qorder: Unknown Job Id 99.firestone\n"
    master.control_errors[8] = "Job is suspended"
    assert refused.run() == 168 and refused.err == "qorder: Job is suspended 8 9\n"


def test_signals_that_there_are_not(master: FakeMaster, call: NewCall) -> None:
    master.views = [running(8)]
    asked = call("qsig", "-s", "NOPE", "8")
    assert (asked.run(), asked.err) == (165, "qsig: Unknown/illegal signal name NOPE\n")


def test_a_job_that_waits_gets_no_signal(master: FakeMaster, call: NewCall) -> None:
    master.views = [pending(8)]
    for name in ("qsig", "qrerun"):
        asked = call(name, "8")
        assert asked.run() == 168 and asked.err.startswith(f"{name}: Request invalid for state of job")


@pytest.mark.parametrize(
    ("status", "closed_by", "state"),
    [
        ("ok", "", "free"),
        ("closed_Full", "", "job-busy"),
        ("closed_Excl", "", "job-exclusive"),
        ("closed_Adm", "root", "offline"),
        ("unavail", "", "down"),
        ("unavail", "root", "down,offline"),
    ],
)
def test_states_of_nodes(status: str, closed_by: str, state: str) -> None:
    assert PbsNode(HostView(name="n1", status=status, closed_by=closed_by), (), 0).state == state


def test_pbsnodes(master: FakeMaster, call: NewCall) -> None:
    master.host_views = [HostView(name="n1", status="ok", max_slots=4, ncpus=4, max_mem_mib=2048.0)]
    lines, summary, told, dsv = (
        call("pbsnodes", *words) for words in (("-a",), ("-aSj",), ("-a", "-F", "json"), ("-a", "-F", "dsv", "-D", ";"))
    )
    assert [each.run() for each in (lines, summary, told, dsv)] == [0, 0, 0, 0]
    nodes = json.loads(told.out)["nodes"]
    assert nodes and all(node["ntype"] == "PBS" and "ncpus" in node["resources_available"] for node in nodes.values())
    name = next(iter(nodes))
    assert lines.out.startswith(f"{name}\n     Mom = {name}\n     ntype = PBS\n     state = ")
    assert summary.out.splitlines()[3].startswith(name)
    assert dsv.out.startswith(f"Name={name};Mom={name};")
    bare = call("pbsnodes")
    assert bare.run() == 1 and bare.err.startswith("pbsnodes: name hosts, or say -a")


def test_no_table_has_a_summary_of_another(call: NewCall) -> None:
    tables: list[LetterOptions] = [table for table, *_ in LISTS.values()]
    assert len({table.summary for table in tables}) == len(tables)
