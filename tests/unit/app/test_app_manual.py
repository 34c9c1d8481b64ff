"""Manual pages and completion scripts: nothing of the tables is missing, and what reads them is content."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gsched.app.entry import LSF_NAMES
from gsched.app.manual.entries import CommandEntry, entries, of_table
from gsched.app.manual.facts import ENVIRONMENT, OWN_ENVIRONMENT, related
from gsched.app.manual.roff import page, write_pages
from gsched.app.manual.shells import completion
from gsched.cli.registry import ALIASES, COMMANDS, LOCAL_ONLY, table_of
from gsched.cli.render.hosts.host_fields import HOST_FIELDS, QUEUE_FIELDS
from gsched.cli.render.jobs.job_fields import JOB_FIELDS
from gsched.dialect.options import Option, OptionTable

ENTRIES = entries()
SHELLS = ("bash", "zsh", "fish")


def named(name: str) -> CommandEntry:
    return next(entry for entry in ENTRIES if entry.name == name)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("share") / "man"
    write_pages(str(place), ENTRIES, lambda text: None)
    return place


def plain(text: str) -> str:
    """What roff shows of a page, near enough to look for words."""
    for escape, sign in (("\\-", "-"), ("\\e", "\\"), ("\\(aq", "'"), ("\\(ga", "`"), ("\\(ha", "^"), ("\\(ti", "~")):
        text = text.replace(escape, sign)
    return re.sub(r"\\f[BIR]", "", text)


def test_every_command_and_every_name_of_lsf_has_a_page(folder: Path) -> None:
    pages = {path.name.removesuffix(".1") for path in (folder / "man1").iterdir()}
    assert pages == {*COMMANDS, *ALIASES, *LSF_NAMES, "gsched", "gadmin", "gsched-pam"}
    assert (folder / "man1" / "bsub.1").read_text() == ".so man1/gsub.1\n"
    assert all(other in pages for name in pages for other in related(name))


def test_every_option_of_every_table_is_in_its_page() -> None:
    for name in COMMANDS.keys() - LOCAL_ONLY:
        text = plain(page(named(name)))
        terms = {word for line in text.splitlines() for word in re.split(r", | ", line) if word.startswith("-")}
        for option in table_of(name).options:
            assert f"-{option.name}" in terms, (name, option.name)
            if not option.refused and option.name not in ("h", "-help"):
                assert option.meaning and option.meaning.replace("`", "")[1:] in text, (name, option.name)


def test_every_word_of_gadmin_is_in_its_page_with_its_options() -> None:
    text = plain(page(named("gadmin")))
    for word in ("ckconfig", "hclose", "qinact", "frag", "showstatus"):
        assert f'.SS "{word}' in text and f"gadmin {word}\n" in text
    assert ".TP\n-C TEXT\nWhy; shown by ghosts -l.\n" in text


def test_elim_gpu_is_told_of_by_its_usage() -> None:
    text = plain(page(named("elim.gpu")))
    assert "--interval SECONDS\nTime between two lines (GSCHED_GPU_INTERVAL," in text and "--once\nPrint one" in text


def test_hostile_texts_stay_texts() -> None:
    option = Option("x", "V", "a `b` and a lone ` c", ".so /etc/passwd", fixed=frozenset({".de"}))
    table = OptionTable("'so it\\begins", ".x", (option, Option("y", help=".ds"), Option("z", help="a `-x y` z")))
    text = page(of_table(".name", table))
    allowed = re.compile(r"\.(TH|SH|SS|TP|PP|B|BR|br) ?|[^.']")
    assert all(allowed.match(line) for line in text.splitlines()), text
    assert "\n\\(aqso it\\ebegins.\n" in text and "\n\\&.so /etc/passwd" not in text and "A \\fB\\-x y\\fR z." in text


@pytest.mark.parametrize("program", ["groff", "man", "mandoc"])
def test_the_readers_of_manual_pages_find_no_fault(program: str, folder: Path) -> None:
    if not shutil.which(program):
        pytest.skip(f"there is no {program}")
    names = sorted(path.name for path in (folder / "man1").iterdir())
    if program == "man":
        names = ["gsub.1", "bsub.1", "gadmin.1"]  # a process for each
    words = {
        "groff": ["groff", "-ww", "-man", "-Tutf8", "-z"],
        "man": ["man", "--warnings", "-l"],
        "mandoc": ["mandoc", "-T", "lint", "-W", "warning"],
    }[program]
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "MANPAGER": "cat", "MANWIDTH": "100"}
    done = subprocess.run(
        [*words, *(f"man1/{name}" for name in names)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if "has been minimized" in done.stdout:
        pytest.skip("this machine has only a stand-in for man")
    faults = done.stderr + (done.stdout if program == "mandoc" else "")
    # A page has no date of its own, and pages of LSF's names are links.
    assert [line for line in faults.splitlines() if "missing date" not in line and ".so is fragile" not in line] == []
    if program == "man":
        assert "submit a job; it runs when" in done.stdout and "hclose [HOST ...]" in done.stdout


def test_variables_that_commands_read_are_told_of() -> None:
    read = set[str]()
    for path in (Path(__file__).parents[3] / "gsched" / "cli").rglob("*.py"):
        read.update(re.findall(r'"((?:LSB|BSUB)_[A-Z_]+)"', path.read_text()))
    told = {*ENVIRONMENT, *(name for each in OWN_ENVIRONMENT.values() for name in each)}
    assert {name for name in read if not name.startswith("LSB_SUB_")} <= told
    assert OWN_ENVIRONMENT.keys() <= {entry.name for entry in ENTRIES}


# -- completion -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stand-ins for the commands that are asked, and the scripts."""
    place = tmp_path_factory.mktemp("completion")
    for name, says in (("gqueues", "normal\nnight"), ("ghosts", "gpu01"), ("gjobs", "17\n18[2]\n17")):
        (place / name).write_text(f'#!/bin/sh\n[ "$GSCHED_COMMAND_WAIT$1" = 0-noheader ] && echo "{says}"\n')
        (place / name).chmod(0o755)
    for shell in SHELLS:
        (place / f"completion.{shell}").write_text(completion(shell, ENTRIES))
    return place


ASKED = """\
_init() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); }
source completion.bash
while read -r -a line; do
  [[ ${line[-1]} == _ ]] && line[-1]=
  _init "${line[@]}"
  _gsched_complete "${line[0]}" "${COMP_WORDS[COMP_CWORD]}" "" 2>/dev/null
  echo "${COMPREPLY[*]}"
done
"""

DIALOGUES = {
    "gkill -st": "-stat",
    "gkill -q n": "normal night",
    "bkill -s US": "USR1 USR2",
    "gkill 1": "17 18[2]",
    "gjobs -q night -u no_such_user_": "",
    "/usr/bin/gkill -m _": "gpu01",
    "gsub -q _": "normal night",
    "gsub -q night -sp": "-sp",
    "gsub true -sp": "",
    "gsub -i completion.b": "completion.bash",
    "gadmin ckc": "ckconfig",
    "gadmin hclose -C why _": "gpu01",
    "badmin qcl": "qclose",
    "badmin qclose n": "normal night",
    "gadmin showconf _": "mbd sbd",
    "gadmin hclose --env": "--envdir",
    "lsadmin rec": "reconfig",
    "gsched names _": "lsf pbs slurm",
    "gsched completion _": "bash zsh fish",
    "gid _": "",
}


def test_bash_completes_what_is_typed(place: Path) -> None:
    done = subprocess.run(
        ["bash", "--norc", "-c", ASKED],
        input="\n".join(DIALOGUES) + "\n",
        cwd=place,
        env={"PATH": f"{place}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    answers = [" ".join(dict.fromkeys(line.split())) for line in done.stdout.splitlines()]
    assert {typed: set(answer.split()) for typed, answer in zip(DIALOGUES, answers, strict=True)} == {
        typed: set(wanted.split()) for typed, wanted in DIALOGUES.items()
    }


def test_bash_takes_the_script_as_a_completion_of_every_command(place: Path) -> None:
    script = "source completion.bash; complete -p gsub bsub elim.gpu gadmin badmin lsfstartup >/dev/null && echo all"
    done = subprocess.run(["bash", "-c", script], cwd=place, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("all\n", "")


def test_fish_completes_what_is_typed(place: Path) -> None:
    if not shutil.which("fish"):
        pytest.skip("there is no fish")
    wanted = {
        "gkill -q n": {"normal", "night"},
        "gadmin hclose ": {"gpu01"},
        "bkill -sta": {"-stat"},
        "gadmin ckc": {"ckconfig"},
    }
    script = "source completion.fish\n" + "".join(f"complete -C '{typed}'; echo ==\n" for typed in wanted)
    environment = {"PATH": f"{place}:{os.environ['PATH']}", "HOME": str(place)}
    done = subprocess.run(
        ["fish", "-c", script], cwd=place, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    answers = [{line.split("\t")[0] for line in part.split("\n") if line} for part in done.stdout.split("==")]
    assert (dict(zip(wanted, answers, strict=False)), done.stderr) == (wanted, "")


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_can_read_its_script(shell: str, place: Path) -> None:
    if not shutil.which(shell):
        pytest.skip(f"there is no {shell}")
    words = [shell, "-n", f"completion.{shell}"]
    done = subprocess.run(words, cwd=place, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_the_scripts_ask_the_commands_is_understood() -> None:
    asked = {
        "gqueues": ("queue_name", QUEUE_FIELDS),
        "ghosts": ("host_name", HOST_FIELDS),
        "gjobs": ("jobid", JOB_FIELDS),
    }
    for name, (field, fields) in asked.items():
        assert f"{name} b{name[1:]}" in completion("bash", ENTRIES)
        assert table_of(name).read(["-noheader", "-o", field]).rest == [] and fields.field(field)
