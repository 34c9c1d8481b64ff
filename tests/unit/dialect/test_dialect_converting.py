"""Scripts of one batch system printed for another, and read again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from gsched.app.commands.scripts.script_words import convert as convert_word
from gsched.base.errors import BadRequest
from gsched.dialect.bsub_options import BSUB
from gsched.dialect.converting.asked_scripts import read_script
from gsched.dialect.converting.conversion import MARK_OF, PRINTERS, ConvertedScript, convert
from gsched.dialect.directives import directives
from gsched.dialect.launching.launch_options import LAUNCH_NAMES
from gsched.dialect.pbs.qsub_options import QSUB
from gsched.dialect.slurm.option_table import SBATCH
from gsched.dialect.spec_values import ValueContext
from gsched.model.jobs.job import JobSpec

AROUND = ValueContext(cwd="/", now=1_795_000_000.0, zone=UTC)
OF_SLURM = """\
#!/bin/sh

#SBATCH -J batch_example
#SBATCH -o batch_example.%j.out
#SBATCH -p gpu-titanxp
#SBATCH -t 264:00:00

#SBATCH --gres=gpu:1
#SBATCH --ntasks=1
#SBATCH --tasks-per-node=1
#SBATCH --cpus-per-task=1

cd  $SLURM_SUBMIT_DIR
srun -l /bin/hostname
squeue  --job  $SLURM_JOBID
"""
OF_PBS = """\
#!/bin/sh
#PBS -N test
#PBS -V
#PBS -l select=4:ncpus=68:mpiprocs=1:ompthreads=68
#PBS -q normal
#PBS -l walltime=04:00:00
#PBS -A caffe

cd $PBS_O_WORKDIR
./run.sh --hostfile $PBS_NODEFILE
"""
BODY = "echo one\n"


def converted(script: str, target: str) -> ConvertedScript:
    return convert(script.encode(), target, name="job.sh", user="ann", now=AROUND)


def lines(script: str, target: str) -> list[str]:
    text = converted(script, target).script.decode()
    return [line.partition(" ")[2] for line in text.splitlines() if line.startswith(MARK_OF[target])]


def notes(script: str, target: str) -> tuple[str, ...]:
    return converted(script, target).notes


def spec_of(script: str) -> JobSpec:
    return read_script(script.encode(), "job.sh", "ann", AROUND).spec


def printed_again(script: str, target: str) -> JobSpec:
    """The script's job, printed in this dialect (its own, too) and read again."""
    asked = read_script(script.encode(), "job.sh", "ann", AROUND)
    mark = MARK_OF[target]
    said = "".join(f"{mark} {line}\n" for line in PRINTERS[target](asked, UTC).lines)
    return spec_of(f"#!/bin/sh\n{said}{BODY}")


def test_a_script_of_slurm_for_lsf() -> None:
    assert lines(OF_SLURM, "bsub") == [
        "-J batch_example",
        "-n 1",
        "-R span[hosts=1]",
        "-gpu num=1:j_exclusive=yes",
        "-q gpu-titanxp",
        "-W 264:00",
        "-oo batch_example.%J.out",
    ]
    assert notes(OF_SLURM, "bsub") == (
        "line 13 of the script: $SLURM_SUBMIT_DIR is $LS_SUBCWD in bsub",
        "line 14 of the script: srun is a command of another batch system: its counterpart is blaunch",
        "line 15 of the script: $SLURM_JOBID is $LSB_JOBID in bsub",
        "line 15 of the script: squeue is a command of another batch system: its counterpart is bjobs",
    )
    text = converted(OF_SLURM, "bsub").script.decode()
    assert text.startswith("#!/bin/sh\n\n#BSUB -J") and text.endswith(OF_SLURM[OF_SLURM.index("cd ") :])


def test_a_script_of_pbs_for_slurm_and_lsf() -> None:
    assert lines(OF_PBS, "sbatch") == [
        "--job-name=test",
        "--partition=normal",
        "--account=caffe",
        "--ntasks=4",
        "--cpus-per-task=68",
        "--time=4:00:00",
        "--output=test.o%j",
        "--error=test.e%j",
        "--requeue",
    ]
    assert {"-n 272", "-R span[block=68]", "-P caffe", "-W 4:00"} <= set(lines(OF_PBS, "bsub"))
    assert "line 10 of the script: $PBS_NODEFILE is $LSB_DJOB_HOSTFILE in bsub" in notes(OF_PBS, "bsub")
    assert "PBS starts jobs in the home directory; here they start where they are submitted" in notes(OF_PBS, "bsub")


def test_a_script_of_lsf_for_slurm_and_pbs() -> None:
    script = (
        '#!/bin/sh\n#BSUB -J "sweep[1-9]%3"\n#BSUB -n 8 -R "span[ptile=4] rusage[mem=4GB] select[big]"\n'
        '#BSUB -gpu "num=2:mode=exclusive_process"\n#BSUB -g /risk -w "done(7) && ended(8)" -o out.%J.%I\n'
        "echo $LSB_JOBINDEX\n"
    )
    assert lines(script, "sbatch") == [
        "--job-name=sweep",
        "--nodes=2",
        "--ntasks=8",
        "--ntasks-per-node=4",
        "--gres=gpu:2",
        "--mem=4096M",
        "--constraint=big",
        "--array=1-9%3",
        "--dependency=afterok:7,afterany:8",
        "--output=out.%A.%a",
        "--open-mode=append",
    ]
    assert "line 5 of the script: -g: group /risk has no counterpart in sbatch" in notes(script, "sbatch")
    assert "line 6 of the script: $LSB_JOBINDEX is $SLURM_ARRAY_TASK_ID in sbatch" in notes(script, "sbatch")
    assert "-l select=2:ncpus=4:ngpus=2:mem=4096mb:big=True" in lines(script, "pbs")
    assert {"-l place=scatter", "-J 1-9%3", "-W depend=afterok:7,afterany:8", "-V"} <= set(lines(script, "pbs"))
    again = spec_of(converted(script, "pbs").script.decode())
    assert (again.slots, again.gpu_req, again.indices) == (8, "num=2:j_exclusive=yes", "1-9")


@pytest.mark.parametrize(
    ("script", "target", "said"),
    [
        ("#!/bin/sh\n#SBATCH --hint=nomultithread\necho\n", "bsub", "line 2 of the script: --hint: "),
        ("#!/bin/sh\n#SBATCH --nice=10\necho\n", "bsub", "line 2 of the script: --nice: "),
        ("#!/bin/sh\n#BSUB -M 4G\necho\n", "sbatch", "line 2 of the script: -M: the limit MEMLIMIT "),
        ("#!/bin/sh\n#BSUB -w 'done(\"a*\")'\necho\n", "sbatch", "line 2 of the script: -w: dependency "),
        ("#!/bin/sh\n#BSUB -R 'cu[type=rack]'\necho\n", "sbatch", "line 2 of the script: -R: 'cu[type=rack]' "),
        ("#!/bin/sh\n#BSUB -gpu num=1:gmem=4G\necho\n", "pbs", "line 2 of the script: -gpu: 'gmem=4G' "),
        ("#!/bin/sh\n#PBS -p 10\necho\n", "sbatch", "line 2 of the script: -p 10: priorities "),
        ("#!/bin/sh\n#PBS -W umask=027\necho\n", "bsub", "line 2 of the script: -W: umask= "),
        ("#!/bin/sh\n#SBATCH -t 0:30\necho\n", "bsub", "line 2 of the script: -t: bsub counts whole minutes"),
        ("#!/bin/sh\n#SBATCH -a 0-3\necho\n", "bsub", "line 2 of the script: -a: indices count from 1"),
        ("#!/bin/sh\n#SBATCH -b 20:00\necho\n", "bsub", "line 2 of the script: -b: the time is 2026-11-18 20:00"),
        ("#PBS -V\necho\n", "bsub", "it names no interpreter: "),
        ("#!/bin/sh\n#SBATCH -n 2\necho\n", "sbatch", "it is a script for sbatch already"),
    ],
)
def test_what_has_no_counterpart_is_told_with_its_line(script: str, target: str, said: str) -> None:
    assert any(note.startswith(said) for note in notes(script, target)), notes(script, target)


def test_options_that_follow_each_other() -> None:
    script = "#!/bin/sh\n#SBATCH -a 0-9:3,20%2 -n 2 --export=NONE,A='x y' -W -J 'a name'\necho\n"
    assert {"-J 'a name[1-10:3,21]%2'", "-K", "-env 'none, A=x y'"} <= set(lines(script, "bsub"))
    assert {"-t 0-9:3,20%2", "-N a_name", "-W block=true", "-v 'A=x y'"} <= set(lines(script, "pbs"))
    apart = "#!/bin/sh\n#PBS -l select=2:ncpus=8:ngpus=1:mem=4gb\necho\n"
    assert {"--nodes=2", "--ntasks=16", "--ntasks-per-node=8", "--gres=gpu:1", "--mem=4096M"} <= set(
        lines(apart, "sbatch")
    )
    assert any("chunks may share a host" in note for note in notes(apart, "sbatch"))


SLURM_VALUES: dict[str, list[str]] = {
    "time": ["10", "1:00:00", "2-1:30:00"],
    "array": ["0-9", "1-5:2%2", "3,7,9"],
    "nodes": ["1", "2", "3"],
    "ntasks": ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12"],
    "cpus-per-task": ["1", "2", "3", "4"],
    "mem": ["4G", "100M"],
    "constraint": ["big", "big&fast", "big|fast"],
    "partition": ["normal", "a,b"],
    "gres": ["gpu:2", "gpu:a100:1"],
    "output": ["out.%j", "dir/%x-%A_%a.txt", "100%%"],
    "error": ["err.%j"],
    "job-name": ["plain", "two words", "it's"],
    "account": ["caffe"],
    "dependency": ["afterok:7:8,afterany:9", "after:3_4"],
    "signal": ["USR1@120", "B:TERM@60"],
    "mail-type": ["BEGIN", "END,FAIL"],
    "begin": ["2027-01-02T03:04:00"],
    "licenses": ["matlab:2"],
    "exclude": ["n1,n2"],
    "nodelist": ["n7"],
    "open-mode": ["append", "truncate"],
    "comment": ['a "quoted" $text'],
}
SLURM_ALL = SLURM_VALUES | {
    "gpus": ["2"],
    "gpus-per-node": ["a100:2"],
    "gpus-per-task": ["1"],
    "mem-per-cpu": ["1G"],
    "mem-per-gpu": ["1G"],
    "ntasks-per-node": ["2"],
    "input": ["in.dat"],
    "chdir": ["/data", "sub"],
    "kill-on-invalid-dep": ["yes"],
    "deadline": ["2027-02-02T03:04:00"],
    "priority": ["70"],
    "reservation": ["ann_0"],
    "mail-user": ["ann@site"],
    "export": ["NONE", "ALL,A=b"],
    "qos": ["normal"],
    "clusters": ["all"],
    "tmp": ["1G"],
    "open-mode": ["append"],
    **{name: [""] for name in ("exclusive", "hold", "requeue", "no-requeue", "quiet", "verbose", "wait", "test-only")},
    "nice": [""],
}
"""All that a script may have."""
SLURM_OPTIONS = st.fixed_dictionaries({}, optional={name: st.sampled_from(each) for name, each in SLURM_VALUES.items()})


def slurm_script(options: dict[str, str]) -> str:
    quoted = {
        name: value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$") for name, value in options.items()
    }
    said = [f"--{name}={text}" if text else f"--{name}" for name, text in quoted.items()]
    return "#!/bin/sh\n" + "".join(f'#SBATCH "{each}"\n' for each in said) + BODY


@given(options=SLURM_OPTIONS)
def test_slurm_printed_and_read_again_is_the_same_job(options: dict[str, str]) -> None:
    script = slurm_script(options)
    try:
        asked = spec_of(script)
    except BadRequest:
        return  # these options exclude each other
    assert printed_again(script, "sbatch") == asked


@given(options=SLURM_OPTIONS)
def test_a_job_of_slurm_is_the_same_in_lsf(options: dict[str, str]) -> None:
    script = slurm_script(options)
    try:
        asked = spec_of(script)
    except BadRequest:
        return
    told = printed_again(script, "bsub")
    same = {
        "front_end": "",
        "index_shift": 0,
        "warns_main": False,
        "queue_named": told.queue_named,
        "project": told.project,
    }
    # LSF names jobs by their command, and has one index.
    same |= {"name": told.name, "output_file": told.output_file, "error_file": told.error_file}
    assert told == msgspec.structs.replace(asked, **same)
    assert asked.project in (told.project, "default") and told.name in (asked.name, "")


PBS_OPTIONS = (
    *("-N name", "-q night", "-A caffe", "-J 0-9%2", "-j oe", "-o out", "-h", "-r n", "-m abe", "-M ann@site", "-p 7"),
    *("-W depend=afterok:7:8,afterany:9", "-l cput=1:00:00", "-d /data", "-F 'a b'", "-k oe", "-l walltime=600"),
)


PBS_ALL = (
    *PBS_OPTIONS,
    *(
        "-t 0-9",
        "-e err",
        "-R e",
        "-V",
        "-v A=b",
        "-w /data",
        "-S /bin/bash",
        "-P caffe",
        "-a 203001020304",
        "-n",
        "-c n",
    ),
    *("-u ann", "-E", "-W umask=027", "-W block=true", "-W stagein=a@localhost:b", "-W sandbox=O_WORKDIR"),
    *("-l nodes=2:ppn=4:gpus=1", "-l select=2:ncpus=2,place=scatter:excl", "-l vmem=1gb", "-l file=1gb", "-l mem=1gb"),
)
"""All that a script may have."""


@given(
    select=st.sampled_from(["1:ncpus=4", "4:ncpus=8:mpiprocs=2:mem=4gb", "2:ncpus=2:ngpus=1+1:ncpus=4", "2:ngpus=1"]),
    place=st.sampled_from(["", ",place=scatter", ",place=pack:excl"]),
    more=st.lists(
        st.sampled_from(PBS_OPTIONS),
        unique=True,
    ),
)
def test_pbs_printed_and_read_again_is_the_same_job(select: str, place: str, more: list[str]) -> None:
    said = "".join(f"#PBS {option}\n" for option in [f"-l select={select}{place}", "-V", *more])
    script = f"#!/bin/sh\n{said}{BODY}"
    assert printed_again(script, "pbs") == spec_of(script)


def test_the_command(tmp_path: Path) -> None:
    script = tmp_path / "a job.sh"
    script.write_text(OF_SLURM)
    told = CliRunner().invoke(convert_word, [str(script), "--to", "bsub"])
    assert told.exit_code == 0 and "#BSUB -J batch_example\n" in told.stdout and "#SBATCH" not in told.stdout
    assert told.stderr.startswith(f"{script}: line 13 of the script: $SLURM_SUBMIT_DIR is ")
    for text, said in (
        ("#!/bin/sh\n#SBATCH --no-such\n", "line 2 of the script: "),
        ("#!/bin/sh\n#PBS -l walltime=0\n", "illegal -l value: "),
        ("#!/bin/sh\n#BSUB -n 0\necho\n", "line 2 of the script: -n: "),
        ("#!/bin/sh\n#BSUB -n 1\n#PBS -N x\necho\n", "line 2 of the script is a #BSUB line and line 3 a #PBS line: "),
    ):
        script.write_text(text)
        wrong = CliRunner().invoke(convert_word, [str(script), "--to", "sbatch" if "#SBATCH" not in text else "bsub"])
        assert (wrong.exit_code, wrong.stdout) == (1, "") and wrong.stderr.startswith(f"{script}: {said}"), wrong.stderr
        assert wrong.stderr.count("\n") == 1
    lacking = CliRunner().invoke(convert_word, [str(tmp_path / "none"), "--to", "pbs"])
    assert (lacking.exit_code, lacking.stdout) == (1, "") and "cannot be read: No such file" in lacking.stderr


LSF_VALUES: dict[str, list[str]] = {
    "sla": ["gold"],
    "-container": ["docker://a/b:1", "/i/a.sif"],
    "-container-mount": ["/data:/d:ro"],
    "J": ["plain", "'two words'", "sweep[1-9:2]%3", "a[1,4,9]"],
    "Jd": ['"a text, longer"'],
    "q": ["normal", "'short long'"],
    "n": ["1", "4", "2,8"],
    "R": ["span[ptile=2]", "'rusage[mem=4GB] select[big]'", "'4*{span[hosts=1]} + 2*{select[big]}'"],
    "gpu": ["num=2", "num=1:mode=shared:gmem=4G", "-"],
    "m": ["n1", "'n1 n2+2'", "'n1! others'"],
    "w": ["'done(7) && ended(8)'", "'exit(\"a*\")'"],
    "b": ["2027:1:2:3:4"],
    "t": ["2027:2:2:3:4"],
    "W": ["90", "1:30"],
    "We": ["60"],
    "sp": ["70"],
    "g": ["/risk/night"],
    "G": ["team"],
    "P": ["caffe"],
    "U": ["ann#0"],
    "Q": ["'99 EXCLUDE(3)'"],
    "o": ["out.%J.%I", "dir/"],
    "oo": ["out.%J"],
    "e": ["err.%J"],
    "eo": ["err.%J"],
    "i": ["in.dat"],
    "cwd": ["/data/run1", "sub"],
    "M": ["16G"],
    "v": ["1G"],
    "c": ["1:30"],
    "p": ["9"],
    "T": ["9"],
    "F": ["1G"],
    "D": ["1G"],
    "S": ["8M"],
    "C": ["100M"],
    "app": ["caffe"],
    "E": ["'test -d /data'"],
    "Ep": ["'rm -rf /tmp/x'"],
    "L": ["/bin/bash"],
    "f": ["'in.dat > /scratch/in.dat'", "'out < there'"],
    "outdir": ["'out/%J'"],
    "wa": ["'URG' -wt 5"],
    "u": ["ann@site"],
    "env": ["'all, SEED=1, ~DISPLAY'", "none"],
    "nnodes": ["2"],
    "-gpu-idle-ok": ["debugging"],
    "-signal": ["TERM@120"],
    "-restart-on": ["host,gpu"],
    "-max-restarts": ["5"],
    "-service": ["auto"],
    "-service-users": ["'ann bob' --service auto"],
    "-notify": ["mail,fail"],
    "-plot": ["'loss=loss = ([0-9.]+)'"],
    "a": ["openmpi"],
    "is": ["in.dat"],
}
LSF_ALONE = ("a", "is", "-max-restarts", "-restart-on", "-signal", "-notify", "-plot", "-service", "-service-users")
"""What nothing is converted to."""
LSF_FLAGS = ("x", "r", "rn", "ti", "B", "N", "Ne", "K", "H", "I", "Is")
LSF_OPTIONS = st.fixed_dictionaries(
    {},
    optional={name: st.sampled_from(each) for name, each in (LSF_VALUES | {flag: [""] for flag in LSF_FLAGS}).items()},
)


def lsf_script(options: dict[str, str]) -> str:
    return "#!/bin/sh\n" + "".join(f"#BSUB -{name} {value}".rstrip() + "\n" for name, value in options.items()) + BODY


@given(options=LSF_OPTIONS)
def test_lsf_printed_and_read_again_is_the_same_job(options: dict[str, str]) -> None:
    script = lsf_script({name: value for name, value in options.items() if name not in LSF_ALONE})
    try:
        asked = spec_of(script)
    except BadRequest:
        return  # these options exclude each other
    assert printed_again(script, "bsub") == asked


def directive_lines(script: bytes) -> dict[str, list[int]]:
    """Mark -> the lines that its system obeys."""
    found = {"#BSUB": [number for number, _ in directives(script)]}
    for number, line in enumerate(script.split(b"\n"), 1):
        if line.strip() and not line.strip().startswith(b"#"):
            break
        for mark in ("#SBATCH", "#PBS"):
            if line.startswith(mark.encode()):
                found.setdefault(mark, []).append(number)
    return {mark: numbers for mark, numbers in found.items() if numbers}


BODY_LINES = ("echo", "", "# text", "#BSUB -q dead", "#SBATCH -p dead", "#PBS -q dead", " #BSUB -q dead", "##BSUB -n 9")


@pytest.mark.parametrize("target", list(MARK_OF))
@given(
    first=st.sampled_from(["#BSUB -q live", "#SBATCH -p live", "#PBS -q live"]),
    before=st.lists(st.sampled_from(["", "# text", "echo"]), max_size=3),
    body=st.lists(st.sampled_from(BODY_LINES), max_size=6),
    shell=st.sampled_from(["#!/bin/sh\n", ""]),
)
def test_live_lines_stay_live_and_dead_ones_dead(
    first: str, before: list[str], body: list[str], shell: str, target: str
) -> None:
    source = first.split()[0]
    if source != "#BSUB":
        before = [line for line in before if line != "echo"]  # sbatch and qsub look no further than that
    script = shell + "\n".join([*before, first, "echo", *body]) + "\n"
    try:
        found = converted(script, target)
    except BadRequest:
        return  # it begins with no #!, which sbatch wants
    obeyed = directive_lines(found.script)
    if target != "bsub":  # whoever is sbatch or qsub obeys no #BSUB line
        obeyed.pop("#BSUB", None)
    assert list(obeyed) == [MARK_OF[target]]
    if source != MARK_OF[target]:
        live = [found.script.decode().split("\n")[number - 1] for number in obeyed[MARK_OF[target]]]
        assert not any("dead" in line for line in live) or source == "#BSUB"
        dead = [f"line {number} " for number, line in enumerate(script.split("\n"), 1) if line == "#BSUB -q dead"]
        told = [note for note in found.notes if "it became ##BSUB" in note]
        expected = dead if target == "bsub" else []
        assert len(told) == len(expected) and all(map(str.startswith, told, expected))


def test_directives_come_before_the_first_command() -> None:
    script = "#!/bin/sh\nset -e\n#BSUB -q night\n./run\n"
    assert converted(script, "sbatch").script.decode().split("\n")[1] == "#SBATCH --partition=night"
    of_slurm = "#!/bin/sh\n#SBATCH -p night\n./run\n#BSUB -n 64\n"
    again = converted(of_slurm, "bsub")
    assert again.script.endswith(b"./run\n##BSUB -n 64\n")
    said = "line 4 of the script: a #BSUB line that is a comment here; bsub would obey it: it became ##BSUB"
    assert said in again.notes


NOT_OF_SCRIPTS = (
    "hostfile",
    "h",
    "-help",
    "V",
    "pack",
    "Zs",
    "wt",
    "gpu-idle-ok",
    "-notebook",
    "-resubmit",
    "-snapshot",
    *LAUNCH_NAMES,
)
WITH = {
    "R": {"n": "8"},
    "-json": {"-dry-run": ""},
    "-container-mount": {"-container": "docker://a/b"},
    "ti": {"w": "'done(7)'"},
    "mem-per-gpu": {"gpus-per-node": "1"},
    "kill-on-invalid-dep": {"dependency": "afterok:7"},
}
"""Option -> what has to stand beside it."""


def option_scripts() -> Iterator[tuple[str, str]]:
    """(option, script with it): all that a script of bsub, sbatch or qsub may have."""
    for option in BSUB.options:
        if not option.refused and option.name not in NOT_OF_SCRIPTS:
            for value in LSF_VALUES.get(option.name, ["1" if option.noted and option.value else ""]):
                yield f"-{option.name}", lsf_script({option.name: value} | WITH.get(option.name, {}))
    for name, values in SLURM_ALL.items():
        yield from ((f"--{name}", slurm_script({name: value} | WITH.get(name, {}))) for value in values)
    for text in PBS_ALL:
        yield text.split()[0], f"#!/bin/sh\n#PBS {text}\n{BODY}"


@pytest.mark.parametrize("target", list(MARK_OF))
@pytest.mark.parametrize(("option", "script"), [*option_scripts()])
def test_each_option_is_printed_or_named(option: str, script: str, target: str) -> None:
    """What it says is printed, or told of with its line and its name."""
    first = script.split("\n")[1]
    if first.startswith(MARK_OF[target]):
        return
    without = converted(script.replace(f"{first}\n", f"{first.split()[0]}\n"), target)
    found = converted(script, target)
    named = [note for note in found.notes if re.match(rf"line 2 of the script: {option}\b", note)]
    assert named or found.script != without.script or found.notes != without.notes, found.notes


def test_slurms_table_is_gone_through() -> None:
    taken = {option.name for option in SBATCH.options if not option.refused and not option.note}
    assert taken - {*SLURM_ALL} == {"help", "usage", "version", "wrap", "parsable"}
    letters = {option.letter for option in QSUB.options if not option.refused}
    assert letters - {option.split()[0][1] for option in PBS_ALL} == {"C", "f", "z", "I", "x"}


def test_a_file_of_hosts_is_not_read() -> None:
    """What it asks for is in a file that only the caller of gsub can open."""
    with pytest.raises(BadRequest, match="line 2 of the script: -hostfile h: the file is read where"):
        converted("#!/bin/sh\n#BSUB -hostfile h\necho one\n", "sbatch")
