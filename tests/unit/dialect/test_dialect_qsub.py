"""qsub's options and #PBS lines as one submission."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.base.errors import BadRequest
from gsched.dialect.pbs.chunk_lists import parse_nodes, parse_select, processes_of
from gsched.dialect.pbs.chunk_placement import parse_place, shape_of
from gsched.dialect.pbs.depend_lists import condition_of
from gsched.dialect.pbs.job_attributes import REFUSED
from gsched.dialect.pbs.pbs_values import (
    parse_duration,
    parse_job,
    parse_moment,
    parse_size_mib,
    show_duration,
    split_attributes,
    split_quoted,
)
from gsched.dialect.pbs.qsub import QsubSubmission, read_qsub
from gsched.dialect.pbs.qsub_fields import QsubReading
from gsched.dialect.pbs.qsub_options import QSUB
from gsched.dialect.pbs.resource_lists import RESOURCES_REFUSED
from gsched.dialect.slurm.array_lists import shifted
from gsched.dialect.spec_values import ValueContext
from gsched.model.jobs.job import PBS, JobSpec
from gsched.resreq.parsing.syntax import merge

NOW = 1_795_000_000.0  # 2026-11-18 11:06:40 UTC
READING = QsubReading(
    around=ValueContext(cwd="/home/ann/run", now=NOW, zone=UTC, home="/home/ann"),
    user="ann",
    host="login1.site",
    server="cluster",
    element_of=lambda number, indices: shifted(indices, 1)[0],
    max_priority=lambda: 100,
)
SCRIPT = "#!/bin/bash\necho\n"


def submitted(*words: str, script: str = SCRIPT, env: Mapping[str, str] | None = None) -> QsubSubmission:
    def read_file(path: str) -> bytes:
        if path != "job.sh":
            raise FileNotFoundError(2, "No such file or directory")
        return script.encode()

    return read_qsub(words, read_stdin=script.encode, read_file=read_file, env=env or {}, reading=READING)


def spec(*words: str, **more: Any) -> JobSpec:
    return submitted(*words, **more).parsed.spec


def refusal(*words: str, **more: Any) -> str:
    with pytest.raises(BadRequest) as caught:
        submitted(*words, **more)
    assert "\n" not in caught.value.text
    return caught.value.text


def test_what_a_job_is_without_options() -> None:
    job = spec("job.sh")
    assert (job.front_end, job.name, job.slots, job.command) == (PBS, "job.sh", 1, "echo")
    assert job.output_file == "/home/ann/run/job.sh.o%J" and job.error_file == "/home/ann/run/job.sh.e%J"
    assert (job.run_dir, job.cwd, job.rerunnable) == ("/home/ann", "/home/ann/run", True)
    assert job.defaulted == ("slots",) and spec().name == "STDIN"
    assert spec('-N="x"'.replace('"', ""), "job.sh").name == "x", "as PSI/J writes it"


def test_a_command_in_place_of_a_script() -> None:
    job = spec("-N", "x", "--", "echo", "a b", "--", "c")
    assert (job.command, job.name) == ("echo 'a b' -- c", "x")
    assert submitted("--", "true").parsed.script is None


def test_the_line_counts_before_the_script() -> None:
    script = "#!/bin/sh\n#PBS -N a -l select=2:ncpus=4,walltime=1:00:00\n#PBS -q x # why\n\necho\n#PBS -N late\n"
    job = spec("-l", "walltime=60", "job.sh", script=script)
    assert (job.name, job.run_limit_s, job.queue, job.slots) == ("a", 60, "x", 8)
    assert spec("-l", "nodes=1:ppn=2", "job.sh", script=script).slots == 2


def test_another_prefix_of_directives() -> None:
    script = "#!/bin/sh\n#PBS -N a\n#SITE -N b\necho\n"
    assert spec("-C", "#SITE", "job.sh", script=script.replace("#PBS", "##PBS")).name == "b"
    assert spec("job.sh", script=script, env={"PBS_DPREFIX": "#PBS"}).name == "a"
    assert "whose script is it" in refusal("job.sh", script="#!/bin/sh\n#PBS -N a\n#SBATCH -J b\n")
    assert refusal("job.sh", script="#PBS -N a\n#PBS -C x\n").startswith("line 2 of the script: '-C' cannot stand")


@pytest.mark.parametrize(
    ("said", "slots", "requirement", "gpus"),
    [
        ("select=4:ncpus=68:mpiprocs=1:ompthreads=68", 272, "span[block=68]", ""),
        ("select=4:ncpus=68,place=scatter", 272, "span[ptile=68]", ""),
        ("select=4:ncpus=2,place=pack", 8, "span[hosts=1]", ""),
        ("select=3", 3, "", ""),
        ("select=1:ncpus=4:ngpus=2:mem=6gb", 4, "span[hosts=1] rusage[mem=6144MB]", "num=2:j_exclusive=yes"),
        ("select=2:ncpus=2:mem=3gb", 4, "span[block=2] rusage[mem=1536MB/task]", ""),
        ("select=2:ncpus=1:ngpus=2:gpu_model=A100", 2, "", "num=2/task:j_exclusive=yes:gmodel=A100"),
        ("nodes=2:ppn=4:gpus=1", 8, "span[ptile=4]", "num=1:j_exclusive=yes"),
        ("nodes=2:ppn=4,mem=8gb", 8, "span[ptile=4] rusage[mem=4096MB]", ""),
        ("nodes=2:ppn=2,gpus=1", 4, "span[ptile=2]", "num=1:j_exclusive=yes"),
        ("nodes=n13:ppn=2", 2, "select[hname==n13] span[hosts=1]", ""),
        ("nodes=2:big:ppn=2", 4, "select[big] span[ptile=2]", ""),
        ("select=1:host=n13:big=True:old=False", 1, "select[hname==n13 && big && !old]", ""),
        ("ncpus=4,mem=100mb,ngpus=1", 4, "span[hosts=1] rusage[mem=100MB]", "num=1:j_exclusive=yes"),
        ("procs=6", 6, "", ""),
        ("software=ansys", 1, "select[ansys]", ""),
        (
            "select=1:ncpus=8+2:ncpus=4:ngpus=2",
            16,
            "8*{span[hosts=1]} + 4*{span[hosts=1] rusage[ngpus_physical=2:j_exclusive=yes]} + "
            "4*{span[hosts=1] rusage[ngpus_physical=2:j_exclusive=yes]}",
            "",
        ),
        ("select=1:host=a+2", 3, "1*{select[hname==a]} + 2*{span[block=1]}", ""),
        (
            "select=1:ncpus=2:ngpus=1+2:mem=1gb,place=pack",
            4,
            "span[hosts=1] rusage[mem=2048MB]",
            "num=1:j_exclusive=yes",
        ),
    ],
)
def test_how_much_a_job_asks_for(said: str, slots: int, requirement: str, gpus: str) -> None:
    job = spec("-l", said, "job.sh")
    assert (job.slots, job.res_req, job.gpu_req) == (slots, requirement, gpus)
    if requirement:
        merge([requirement])
    assert ",".join(job.front_end_words) == said


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("walltime=1,walltime=2", "walltime is given twice"),
        ("select=1,select=2", "select is given twice"),
        ("select=1,ncpus=2", '"-lresource=" cannot be used with "select" or "place", resource is: ncpus'),
        ("select=1,nodes=2", "resource is: nodes"),
        ("select=99999999:ncpus=99999999", "CPUs"),
        ("select=9999999999", "number of chunks"),
        ("nodes=999999999", "CPUs"),
        ("nodes=" + "+".join(["1"] * 200), "more than 100 kinds"),
        ("select=0", "the number of chunks '0'"),
        ("select=2:ncpus=0", "ncpus= '0'"),
        ("select=2:ncpus=1:ncpus=2", "ncpus is given twice in a chunk"),
        ("select=2:ncpus", "'ncpus' is not NAME=VALUE"),
        ("select=2:arch=linux", "arch= is not supported"),
        ("select=2:colour=red", "colour= is not supported"),
        ("select=1:host=a;b", "is no name of a host"),
        ("nodes=1:ppn=2:ppn=3", "ppn is given twice"),
        ("nodes=1:gpus=1:exclusive_process", ":exclusive_process is not supported"),
        ("place=everywhere", "place=everywhere is not supported"),
        ("place=group=rack", "place=group= is not supported"),
        ("walltime=soon", "'soon' is no time"),
        ("walltime=0", "walltime=0 would let nothing run"),
        ("mem=lots", "'lots' is no size"),
        ("walltime", "'walltime' is not NAME=VALUE"),
        ("colour=red", "Unknown resource: colour"),
        ("pmem=1gb", "pmem= is not supported: say mem="),
        ("", "'' is not NAME=VALUE"),
        ("host='a", "unmatched '"),
    ],
)
def test_resources_that_are_wrong(said: str, told: str) -> None:
    text = refusal("-l", said, "job.sh")
    assert "illegal -l value: " in text and told in text


def test_every_resource_that_is_refused_says_what_to_say_instead() -> None:
    for name, instead in RESOURCES_REFUSED.items():
        assert f"{name}= is not supported: {instead}" in refusal("-l", f"{name}=1", "job.sh")


def test_the_same_value_twice_is_said_once() -> None:
    assert spec("-l", "walltime=5", "-l", "walltime=5", "job.sh").run_limit_s == 5


def test_limits() -> None:
    job = spec("-l", "cput=1:00,vmem=2gb,file=1mb", "job.sh")
    assert job.limits == {"CPULIMIT": 60.0, "SWAPLIMIT": 2048.0, "FILELIMIT": 1024.0}


@pytest.mark.parametrize(
    ("words", "output", "error"),
    [
        (("-j", "oe"), "/home/ann/run/n.o%J", ""),
        (("-j", "eo"), "/home/ann/run/n.e%J", ""),
        (("-o", "x", "-e", "/tmp/"), "/home/ann/run/x", "/tmp/n.e%J"),
        (("-o", "login1:x", "-e", "localhost:y"), "/home/ann/run/x", "/home/ann/run/y"),
        (("-o", "/tmp/$PBS_JOBID.out"), "/tmp/%J.cluster.out", "/home/ann/run/n.e%J"),
        (("-k", "oe"), "/home/ann/n.o%J", "/home/ann/n.e%J"),
        (("-k", "od"), "/home/ann/run/n.o%J", "/home/ann/run/n.e%J"),
        (("-R", "e"), "/home/ann/run/n.o%J", "/dev/null"),
        (("-J", "0-3"), "/home/ann/run/n.o%J.%i", "/home/ann/run/n.e%J.%i"),
        (("-J", "1-3", "-o", "x.^array_index^"), "/home/ann/run/x.%I", "/home/ann/run/n.e%J.%I"),
    ],
)
def test_where_output_goes(words: tuple[str, ...], output: str, error: str) -> None:
    job = spec("-N", "n", *words, "job.sh")
    assert (job.output_file, job.error_file) == (output, error)


def test_arrays() -> None:
    job = spec("-J", "0-9:3%2", "job.sh")
    assert (job.indices, job.array_limit, job.index_shift) == ("1-10:3", 2, 1)
    job = spec("-t", "1-3,7%2", "job.sh")
    assert (job.indices, job.array_limit, job.index_shift) == ("1-3,7", 2, 0)
    assert spec("-J", "1-9", "-W", "max_run_subjobs=4", "job.sh").array_limit == 4
    assert refusal("-J", "3", "job.sh").startswith("illegal -J value")
    assert "give one of them" in refusal("-J", "1-3", "-t", "1-3", "job.sh")
    assert "illegal -J value" in refusal("-J", "0-999999999", "-J", "9-1", "job.sh")


def test_variables() -> None:
    env = {"HOME": "/home/ann", "PATH": "/bin", "A": "1", "B": "2", "PBS_JOBID": "3", "OMP_NUM_THREADS": "9"}
    found = submitted("-v", "A,C='x,y',D=", "-l", "ncpus=4", "job.sh", env=env).parsed.environment
    assert (found["A"], found["C"], found["D"]) == ("1", "x,y", "")
    assert "B" not in found and "PBS_JOBID" not in found
    assert (found["PBS_O_WORKDIR"], found["PBS_O_HOST"], found["PBS_O_PATH"]) == (
        "/home/ann/run",
        "login1.site",
        "/bin",
    )
    assert (found["OMP_NUM_THREADS"], found["NCPUS"]) == ("4", "4")
    whole = submitted("-V", "-v", "OMP_NUM_THREADS=2", "job.sh", env=env)
    assert whole.parsed.environment["B"] == "2" and whole.parsed.environment["OMP_NUM_THREADS"] == "2"
    assert whole.parsed.spec.login_shell == "" and spec("job.sh", env={"SHELL": "/bin/zsh"}).login_shell == "/bin/zsh"


def test_attributes() -> None:
    asked = submitted("-W", "depend=afterok:1.cluster:2,afterany:3[4],block=true,umask=027", "job.sh")
    job = asked.parsed.spec
    assert (job.dependency, job.end_orphan) == ("done(1) && done(2) && ended(3[5])", True)
    assert (asked.parsed.wait, asked.parsed.umask) == (True, 0o27)
    copied = spec("-W", "stagein=in@login1:/data/in", "-W", "stageout=out@localhost:/data/out", "job.sh")
    assert copied.file_copies == ("/data/in > in", "/data/out < out")
    assert spec("-W", "sandbox=O_WORKDIR", "job.sh").run_dir == "/home/ann/run"


def test_every_attribute_is_taken_or_refused_by_name() -> None:
    for name, instead in REFUSED.items():
        assert f"{name}= is not supported: {instead}" in refusal("-W", f"{name}=1", "job.sh")
    assert "colour= is not known" in refusal("-W", "colour=red", "job.sh")


@pytest.mark.parametrize("kind", ["before", "beforeok", "on", "synccount", "runone"])
def test_dependencies_that_are_refused(kind: str) -> None:
    assert f"depend={kind} is not supported" in refusal("-W", f"depend={kind}:1", "job.sh")
    with pytest.raises(BadRequest):
        condition_of("afterok", READING.element_of)
    assert condition_of("afterokarray:7[]", READING.element_of) == "done(7)"


OPENPBS = "a:A:c:C:e:fhIj:J:k:l:m:M:N:o:p:q:r:R:S:u:v:VW:XzP:G"
TORQUE = "a:A:b:c:C:d:D:e:EfF:hi:Ij:J:k:K:l:L:m:M:nN:o:p:P:q:r:S:t:T:u:v:Vw:W:Xxz"


def test_the_table_goes_through_both_manuals_lists() -> None:
    options = {option.letter: option for option in QSUB.options}
    for text in (OPENPBS, TORQUE):
        for place, name in enumerate(text):
            if name != ":":
                assert bool(options[name].value) == (text[place + 1 : place + 2] == ":"), name
    assert len(options) == len(QSUB.options)
    for option in QSUB.options:
        if option.refused:
            assert refusal(f"-{option.letter}", "1", "job.sh") == f"-{option.letter}: {option.refused}"
        else:
            assert option.help and f"-{option.letter}" in QSUB.help("qsub")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("-N", "a b"), "illegal -N value: 'a b'"),
        (("-N", "x" * 300), "illegal -N value"),
        (("-p", "2000"), "illegal -p value: '2000'"),
        (("-a", "9999"), "illegal -a value"),
        (("-j", "x"), "illegal -j value"),
        (("-k", "x"), "illegal -k value"),
        (("-m", "nb"), "illegal -m value"),
        (("-r", "x"), "illegal -r value"),
        (("-c", "s"), "illegal -c value"),
        (("-u", "bob"), "illegal -u value"),
        (("-S", "bash"), "illegal -S value"),
        (("-v", "=1"), "-v: illegal -v value"),
        (("-q", "q@elsewhere"), "illegal -q value"),
        (("-o", "elsewhere:/x"), "illegal -o value"),
        (("-o", "$HOSTNAME/x"), "illegal -o value: $HOSTNAME is not filled in"),
        (("-W", "depend=afterok:x"), "illegal -W value: illegally formed job identifier: x"),
        (("-W", "block"), "illegal -W value"),
        (("-A", "x", "-P", "y"), "-A x: -P y names the project already"),
        (("-Y",), "invalid option -- 'Y'"),
        (("-l",), "'job.sh'"),
        (("job.sh", "more"), "'more' stands behind the script"),
        (("-I", "-J", "1-2"), "interactive and array job submission cannot be used together"),
    ],
)
def test_what_is_wrong_is_named(words: tuple[str, ...], told: str) -> None:
    assert told in refusal(*words, "job.sh")


def test_scripts_that_are_wrong() -> None:
    assert refusal("none.sh") == "script file:: No such file or directory: none.sh"
    assert "DOS/Windows" in refusal("job.sh", script="#!/bin/sh\r\n")
    assert refusal("job.sh", script="#PBS -l x=1\n").startswith("illegal -l value: Unknown resource")
    assert refusal("job.sh", script="\n#PBS -N 'a\n").startswith("line 2 of the script")
    assert refusal("job.sh", script="#PBS -N a/b\n").startswith("line 1 of the script: -N: illegal -N value")


def test_an_interactive_job() -> None:
    asked = submitted("-I", "-l", "ncpus=2", env={"SHELL": "/bin/bash"})
    job = asked.parsed.spec
    assert (job.interactive, job.command, job.output_file, job.slots) == ("Is", "/bin/bash", "", 2)
    assert asked.parsed.is_interactive
    assert submitted("-I", "-x", "job.sh").parsed.script is not None


def test_the_shell_of_a_script() -> None:
    assert submitted("-S", "/bin/zsh", "job.sh").parsed.script == b"#!/bin/zsh\necho\n"
    assert submitted("job.sh", script="echo\n", env={"SHELL": "/bin/bash"}).parsed.script == b"#!/bin/bash\necho\n"


def test_values() -> None:
    assert [parse_duration(text) for text in ("90", "1:30", "04:00:00", "1.5")] == [90, 90, 14_400, 1]
    assert show_duration(14_400) == "04:00:00"
    sizes = [parse_size_mib(text) for text in ("1", "4gb", "512kb", "1mw", "2G", "100b", "1TB")]
    assert sizes == [1, 4096, 1, 8, 2048, 1, 1 << 20]
    for text, shown in (
        ("1200", "2026-11-18 12:00:00"),
        ("1000", "2026-11-19 10:00:00"),
        ("171000", "2026-12-17 10:00:00"),
        ("12311000.30", "2026-12-31 10:00:30"),
        ("01011000", "2027-01-01 10:00:00"),
        ("202701011000", "2027-01-01 10:00:00"),
    ):
        assert datetime.fromtimestamp(parse_moment(text, NOW, UTC), UTC).strftime("%F %T") == shown
    for text in ("999912311000", "900101011000", "196912312359"):
        with pytest.raises(BadRequest, match="is not within the years 1970 to 9000"):
            parse_moment(text, NOW, UTC)
    assert (parse_job("12.s").number, parse_job("12[].s").indices, parse_job("12[3].a.b@c").server) == (12, "", "a.b")
    assert split_quoted("a,'b,c',d\\,e") == ["a", "b,c", "d,e"]
    assert split_attributes("depend=afterok:1,afterany:2,block=true") == [
        ("depend", "afterok:1,afterany:2"),
        ("block", "true"),
    ]


def test_processes_over_hosts() -> None:
    chunks = parse_select("2:ncpus=4:mpiprocs=2+1:ncpus=8:mpiprocs=8")
    assert [*processes_of(chunks, {"a": 8, "b": 8})] == [("a", 2), ("a", 2), ("b", 8)]
    assert [*processes_of(parse_nodes("2:ppn=3"), {"a": 3, "b": 3})] == [("a", 3), ("b", 3)]


def test_shapes_never_ask_for_more_hosts_than_chunks() -> None:
    for text in ("20:ncpus=2:ngpus=1", "3:ncpus=2:ngpus=3"):
        shape = shape_of(parse_select(text), parse_place("free:shared").arrangement)
        assert shape.slots == int(text.partition(":")[0]) * 2


WORDS = st.one_of(
    st.sampled_from([f"-{option.letter}" for option in QSUB.options]),
    st.sampled_from(["select=2:ncpus=3", "nodes=1:ppn=2", "1-3%2", "depend=afterok:1", "oe", "job.sh", "--", "-", "y"]),
    st.text(max_size=12),
    st.text(alphabet="select=nodes:+,0123456789gbmwalltime%-[].", max_size=30),
)


@given(st.lists(WORDS, max_size=8), st.text(max_size=60))
def test_no_command_line_ends_in_a_traceback(words: list[str], line: str) -> None:
    try:
        job = submitted(*words, script=f"#PBS {line}\necho\n").parsed.spec
    except BadRequest as error:
        assert error.text and "Traceback" not in error.text
    else:
        assert job.slots >= 1
