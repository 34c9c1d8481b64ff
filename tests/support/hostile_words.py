"""Command lines and scripts to throw at readers of options, made from the options' tables with garbage among them.

The same seed gives the same words. Nothing here knows what a word means: many are right, most are nearly right, some
are nothing at all. `Steps` counts what reading them takes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from gsched.dialect.slurm.gnu_options import GnuOption

PACKAGE = str(Path(__file__).resolve().parents[2] / "gsched") + "/"
VALUES = (
    *("", "0", "1", "-1", "2", "3", "12", "007", "1e9", "0x10"),
    *("999999999", "99999999999999999999", "3.5", "-", "--"),
    *("0-9", "1-10:2%3", "0-999999999", "0-999999999:7,1-999999999:11", "1,1", "9-1", "1-3,2-4%0", "0-2147483646"),
    *(
        "n1",
        "n[1-3,07]",
        "n[0-99999999]",
        "n[1-9][1-9][1-9][1-9][1-9]",
        "n[",
        "n[1-3]]",
        "n[3-1],gpu01",
        "n[,]",
        "[1-3]",
    ),
    *("10", "10:30", "1:00:00", "2-1:30:00", "3-12", "0:0:0", "99-99:99:99", "9999999-9999999:9999999:9999999"),
    *("9999999:9999999:999999999", "unlimited", "INFINITE", "1:2:3:4", "-5", "+10", "1-", "1:", ":1", "60.5"),
    *("now", "now+1hour", "now-2days", "now+999999999weeks"),
    *("now-999999999weeks", "16:00", "3:30PM", "25:00", "noon"),
    *(
        "1128",
        "0229",
        "112826",
        "11/28/26-08:00",
        "11.28",
        "2026-11-28T08:00",
        "2026-02-30",
        "9999-12-31T23:59",
        "0001-01-01",
    ),
    *(
        "202611280800.30",
        "1281234",
        "010100000000",
        "999912312359",
        "0800",
        "2026:11:28:8:00",
        "8:00",
        "tomorrow",
        "today",
    ),
    *(
        "4G",
        "100M",
        "0.5T",
        "512kb",
        "64gb",
        "8tw",
        "1KB",
        "999999999999T",
        "0",
        "0M",
        "16MB/task",
        "999999999999999pb",
    ),
    *("gpu", "gpu:0", "gpu:2", "gpu:a100:1", "gpu:2,gpu:3", "none", "a100:2", "num=2:mode=shared", "craynetwork:1"),
    *("select=4:ncpus=8:ngpus=2:mem=64gb", "select=1:ncpus=2+2:ngpus=1"),
    *("nodes=2:ppn=4:gpus=1", "select=0", "procs=3"),
    *("nodes=n1:ppn=2+n2", "walltime=1:00:00", "walltime=1:00,walltime=2:00"),
    *("place=scatter:excl", "ncpus=2,mem=1gb"),
    *(
        "walltime=1:00:00,select=1:ncpus=2,select=2",
        "select=999999999:ncpus=999999999",
        "select=1:ncpus=1:ncpus=1",
        "mem=",
    ),
    *("depend=afterok:1:2,afterany:3", "depend=before:1", "block=true", "umask=027", "sandbox=HOME", "umask=999"),
    *("stagein=a@localhost:b", "stageout=a@other:b", "max_run_subjobs=2"),
    *("depend=afterok:1[]", "group_list=x", "x=y,"),
    *(
        "afterok:1:2,afterany:3",
        "after:5+10",
        "afterok:13_[0-99999]",
        "afterany:13_[0-999999999]",
        "singleton",
        "12",
        "?,",
    ),
    *(
        "done(1) && ended(2)",
        "done(*)",
        "span[ptile=2] rusage[mem=1GB]",
        "select[a||b]",
        "{}",
        "2*{span[hosts=1]}",
        "a&b|c",
    ),
    *("NAME=VALUE,OTHER", "ALL,A=b", "NONE", "all, ~X", "A='x,y'", "=", "a=b=c", ",", ",,,", ":", "%", "a,b,c"),
    *(
        "normal",
        "nowhere",
        "normal@elsewhere",
        "ann",
        "root,nobody",
        "PENDING",
        "R,PD",
        "Q",
        "RH",
        "q.gt.1200",
        "ncpus.ge.4",
    ),
    *(
        "B:USR1@120",
        "R:TERM",
        "KILL",
        "SIGUSR1",
        "9",
        "64",
        "KILL@99999",
        "u",
        "uos",
        "n",
        "y",
        "oe",
        "eo",
        "abe",
        "force",
    ),
    *(
        "%j",
        "%A_%a",
        "%x-%u",
        "%9999999j",
        "%",
        "%%",
        "out.%J.%I",
        "^array_index^",
        "$PBS_JOBID",
        "${HOME}",
        "$NOPE",
        "a/b/",
    ),
    *(
        "host:/path",
        ":",
        "/",
        ".",
        "..",
        "~",
        "~/x",
        "/dev/null",
        "two words",
        "it's",
        '"open',
        "'",
        '""',
        "\\",
        "\\\\",
        "$(x)",
    ),
    *(
        "`x`",
        "a\nb",
        "\n",
        "\t",
        "a\tb",
        "\r",
        "\0",
        "a\0b",
        "\x1b[31m",
        "\u202e",
        "\u2028",
        "\u00a0",
        "²",
        "١٢",
        "é",
        "한국",
    ),
    *(
        "\udcff",
        "a\udc80b",
        "🂡",
        "default",
        "json",
        "dsv",
        "xml",
        "JobID,State%20",
        "%i %t",
        "%.99999999i",
        "-i,+t",
        "all",
    ),
    *(
        "TimeLimit=1:00",
        "JobId=12",
        "NodeName=n[1-3]",
        "State=DRAIN",
        "Priority=0",
        "hostnames",
        "n[1-3]",
        "12.0",
        "12.batch",
    ),
    *(
        "12[]",
        "12[3].firestone",
        "12.firestone",
        "13[1-5]",
        "13_[1-3]",
        "13_4",
        "12.elsewhere",
        "@firestone",
        "4294967296",
    ),
)
"""What options take, right and wrong."""
FITTING = {
    **dict.fromkeys(("time", "time-min", "timelimit-min", "timelimit-max", "W", "We", "c", "wt"), ("10", "1:30")),
    **dict.fromkeys(("array", "J", "t"), ("0-9", "1-10:2%3", "1-3")),
    **dict.fromkeys(("ntasks", "nodes", "cpus-per-task", "n", "N", "priority", "sp", "iterate"), ("1", "2", "3", "8")),
    **dict.fromkeys(("gpus", "gpus-per-node", "gpus-per-task", "G"), ("1", "a100:2", "0")),
    **dict.fromkeys(("mem", "mem-per-cpu", "mem-per-gpu", "tmp", "M", "v", "F", "D", "S"), ("4G", "100M")),
    **dict.fromkeys(("gres",), ("gpu:2", "gpu:a100:1", "gpu", "none")),
    **dict.fromkeys(("partition", "q", "queue"), ("normal", "a,b")),
    **dict.fromkeys(("output", "error", "input", "o", "e", "i", "oo", "eo"), ("out.%j", "%x-%A_%a.txt", "a/b", "out")),
    **dict.fromkeys(("job-name", "name", "account", "comment", "A", "P", "Jd"), ("plain", "two words", "it's")),
    **dict.fromkeys(("begin", "deadline", "starttime", "endtime"), ("now+1hour", "16:00", "2030-01-02T03:04")),
    **dict.fromkeys(("a",), ("1200", "203001020304", "0-9")),
    **dict.fromkeys(("b",), ("20:00", "2030:1:2:3:4", "now+1hour")),
    **dict.fromkeys(("dependency", "d"), ("afterok:1:2,afterany:3", "after:3_4", "/data")),
    **dict.fromkeys(("nodelist", "exclude", "nodes", "w", "m"), ("n1", "n[1-3]", "n1 n2", "abe")),
    **dict.fromkeys(("l",), ("select=2:ncpus=4:ngpus=1:mem=4gb,place=scatter", "nodes=2:ppn=4", "walltime=1:00:00")),
    **dict.fromkeys(("signal", "s"), ("B:USR1@120", "TERM", "USR1")),
    **dict.fromkeys(("export", "env", "v"), ("ALL", "NONE", "ALL,A=b", "A=b")),
    **dict.fromkeys(("states", "state", "mail-type"), ("PENDING", "R,PD", "END,FAIL")),
    **dict.fromkeys(("format", "Format", "O"), ("%i %t", "JobID,State%20", "JobID,State:20")),
    **dict.fromkeys(("jobs", "jobid"), ("8", "13_2", "8,9", "99")),
    **dict.fromkeys(("gpu",), ("num=2", "num=1:mode=shared:j_exclusive=yes")),
    **dict.fromkeys(("R",), ("span[ptile=2]", "rusage[mem=1GB]", "select[big]", "oe")),
    **dict.fromkeys(("h",), ("u", "n")),
    **dict.fromkeys(("r",), ("y", "n")),
    **dict.fromkeys(("j", "k"), ("oe", "n")),
    **dict.fromkeys(("p",), ("10", "-5")),
    **dict.fromkeys(("u", "user", "me"), ("ann", "test")),
}
"""Option -> values that it takes in one dialect at least."""
_JOINS = (
    ",",
    ":",
    "=",
    "+",
    "-",
    "%",
    "/",
    "[",
    "]",
    "{",
    "}",
    "(",
    ")",
    " ",
    "&&",
    "||",
    "@",
    ".",
    "\\",
    "'",
    '"',
    "",
)
_FIRST = ("#!/bin/bash -l", "#!/usr/bin/env python3", "", "#!", "echo", "#", "\ufeff#!/bin/sh")
_BODY = (
    *(
        "",
        "echo one",
        "cd $PBS_O_WORKDIR",
        "srun hostname",
        "qsub next.sh",
        "# a comment",
        "  # indented",
        "#",
        "#!",
        "  ",
    ),
    *(
        "cat <<EOF",
        "EOF",
        "#BSUBx",
        "##BSUB -n 4",
        " #SBATCH -n 4",
        "#SBATCH",
        "#BSUB",
        "#PBS",
        "exit 3",
        "\x0c",
        "\xa0",
    ),
)
_MARKS = ("#BSUB", "#SBATCH", "#PBS")
_LONGEST = 3000


class HostileWords:
    """What one seed makes."""

    def __init__(self, seed: object) -> None:
        self.random = Random(str(seed))

    def value(self) -> str:
        """A value: one that is known, several joined, one that is damaged, or garbage."""
        kind = self.random.random()
        if kind < 0.55:
            return self.random.choice(VALUES)
        if kind < 0.75:
            return self.random.choice(_JOINS).join(self.random.choices(VALUES, k=self.random.randint(2, 4)))
        if kind < 0.92:
            return self._damaged(self.random.choice(VALUES))
        if kind < 0.97:
            return "".join(self._character() for _ in range(self.random.randrange(20)))
        piece = self.random.choice((*VALUES, *_JOINS, "[1-", "((", "a=", "&&x"))
        return (piece * _LONGEST)[:_LONGEST]

    def _character(self) -> str:
        return chr(self.random.choice((self.random.randrange(1, 128), self.random.randrange(1, 0x3000))))

    def _damaged(self, text: str) -> str:
        characters = list(text)
        for _ in range(self.random.randint(1, 3)):
            at = self.random.randrange(len(characters) + 1)
            what = self.random.random()
            if what < 0.4 and characters:
                del characters[min(at, len(characters) - 1)]
            elif what < 0.7:
                characters.insert(at, self.random.choice("0123456789,:=+-%/[]{}()<>&|\"'\\ .\t@#!*?^$~é"))
            else:
                characters[at:at] = characters[: self.random.randrange(len(characters) + 1)]
        return "".join(characters)

    def option(self, options: Sequence[GnuOption], *, one_letter: bool) -> list[str]:
        """An option as somebody may write it, with a value or without."""
        taken = [option for option in options if not option.refused]
        option = self.random.choice(taken if self.random.random() < 0.95 else options)
        fitting = FITTING.get(option.name)
        value = self.random.choice(fitting) if fitting and self.random.random() < 0.65 else self.value()
        has_value = bool(option.value) is (self.random.random() < 0.97)
        letters = [f"-{option.letter}{value}"] if has_value else [f"-{option.letter}"]
        if has_value and self.random.random() < 0.6:
            letters = [f"-{option.letter}", value]
        if one_letter or (option.letter and self.random.random() < 0.4):
            return letters
        name = option.name
        if self.random.random() < 0.1:
            name = name[: self.random.randint(0, len(name))]
        elif self.random.random() < 0.03:
            name = self._damaged(name)
        if not has_value:
            return [f"--{name}"]
        return [f"--{name}={value}"] if self.random.random() < 0.7 else [f"--{name}", value]

    def line(
        self, options: Sequence[GnuOption], operands: Sequence[str] = (), *, one_letter: bool = False
    ) -> list[str]:
        """Options and operands; `operands`: those that make sense."""
        words: list[str] = []
        for _ in range(self.random.choice((0, 1, 1, 2, 2, 3, 5))):
            words += self.option(options, one_letter=one_letter)
        for _ in range(self.random.choice((0, 1, 1, 1, 1, 1, 2, 4))):
            words.append(self.random.choice(operands) if operands and self.random.random() < 0.8 else self.value())
        if self.random.random() < 0.1:
            self.random.shuffle(words)
        return words

    def script(self, tables: dict[str, Sequence[GnuOption]]) -> bytes:
        """A script, mostly with lines of one mark. `tables`: mark -> its options."""
        mark = self.random.choice(list(tables))
        lines = ["#!/bin/sh" if self.random.random() < 0.9 else self.random.choice(_FIRST)]
        for _ in range(self.random.choice((1, 2, 3, 6))):
            kind = self.random.random()
            if kind < 0.85:
                lines.append(self.directive(mark, tables[mark]))
            elif kind < 0.97:
                lines.append(self.random.choice(_BODY))
            else:
                other = self.random.choice(_MARKS)
                lines.append(self.directive(other, tables.get(other, tables[mark])))
        lines += ["echo one"] if self.random.random() < 0.95 else []
        lines += self.random.choices(_BODY, k=self.random.randrange(4))
        if self.random.random() < 0.1:
            lines.append(self.directive(self.random.choice(_MARKS), tables[mark]))
        end = "\n" if self.random.random() < 0.97 else "\r\n"
        return (end.join(lines) + end).encode("utf-8", "surrogateescape" if self.random.random() < 0.9 else "replace")

    def directive(self, mark: str, options: Sequence[GnuOption]) -> str:
        """A line of a script."""
        words = self.option(options, one_letter=mark != "#SBATCH")
        if self.random.random() < 0.7:
            words = [f"'{word}'" if set(word) & set(' \t"\\#$') and "'" not in word else word for word in words]
        return f"{mark}{self.random.choice((' ', ' ', ' ', '  ', '', chr(9)))}{' '.join(words)}"

    def variables(self, names: Sequence[str]) -> dict[str, str]:
        """A few variables of these names; none holds a NUL."""
        chosen = self.random.sample(list(names), k=min(len(names), self.random.choice((0, 0, 0, 1, 2))))
        return {name: self.value().replace("\0", "") for name in chosen}


class TooManySteps(BaseException):
    """Not an Exception: nothing that is tested may take it for its own."""


@contextmanager
def at_most(steps: int) -> Iterator[None]:
    """Raises TooManySteps where more lines of gsched are run in here, by this thread."""
    left = steps

    def line(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal left
        if event == "line":
            left -= 1
            if left < 0:
                raise TooManySteps(f"more than {steps} lines were run, the last in {frame.f_code.co_qualname}")
        return line

    def called(frame: FrameType, event: str, argument: object) -> Callable[..., Any] | None:
        return line if frame.f_code.co_filename.startswith(PACKAGE) else None

    before = sys.gettrace()
    sys.settrace(called)
    try:
        yield
    finally:
        sys.settrace(before)
