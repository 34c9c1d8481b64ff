"""Scripts of one batch system printed for another, and read again."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from gsched.app.commands.scripts.script_words import convert as convert_word
from gsched.base.errors import BadRequest
from gsched.dialect.converting.asked_scripts import read_script
from gsched.dialect.converting.conversion import MARK_OF, PRINTERS, ConvertedScript, convert
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
    assert "line 5 of the script: group /risk has no counterpart in sbatch" in notes(script, "sbatch")
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
        ("#!/bin/sh\n#BSUB -M 4G\necho\n", "sbatch", "line 2 of the script: the limit MEMLIMIT "),
        ("#!/bin/sh\n#BSUB -w 'done(\"a*\")'\necho\n", "sbatch", "line 2 of the script: dependency "),
        ("#!/bin/sh\n#BSUB -R 'cu[type=rack]'\necho\n", "sbatch", "line 2 of the script: 'cu[type=rack]' "),
        ("#!/bin/sh\n#BSUB -gpu num=1:gmem=4G\necho\n", "pbs", "line 2 of the script: 'gmem=4G' "),
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
SLURM_OPTIONS = st.fixed_dictionaries({}, optional={name: st.sampled_from(each) for name, each in SLURM_VALUES.items()})


def slurm_script(options: dict[str, str]) -> str:
    quoted = {
        name: value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$") for name, value in options.items()
    }
    return "#!/bin/sh\n" + "".join(f'#SBATCH "--{name}={text}"\n' for name, text in quoted.items()) + BODY


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
