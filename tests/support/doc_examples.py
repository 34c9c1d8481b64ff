"""The transcripts of README.md and docs/: blocks marked `console`, read, run by a shell and compared.

A block may follow an HTML comment, which readers do not see:

    <!-- setup ... -->      shell lines that bring about what the transcript begins with: `job 7 WORDS` submits what the
                            transcript calls job 7, `await 7 RUN` waits for its state
    <!-- not run: WHY -->   the block cannot be run on one machine by a test

Numbers, dates, names of users and hosts, and white space may differ; `...` stands for anything.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
PATIENCE_S = 600.0
"""Catches a hang only: a simulation computes for ten seconds of a processor that many others may want."""
LOOK_S = 0.2
BLOCK = re.compile(r"(?:^<!-- *(setup\s|not run:)(.*?)-->\n)?^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CHANGING = re.compile(
    r"(^|[;&|(] *)"
    r"(gsub|bsub|sbatch|srun|qsub|gsched|gmod|gswitch|gkill|gstop|gresume|grequeue|gtop|gbot|grun|gpost|gadmin|gbgadd) "
)
"""A command that is not asked again until it says what the page says."""

FUNCTIONS = r"""
job() {
    local name=$1 line; shift
    line=$(gsub "$@") && [[ $line =~ \<([0-9]+)\> ]] || exit 1
    echo "$name ${BASH_REMATCH[1]}" >> "$DOC_JOBS"; export "job_$name=${BASH_REMATCH[1]}"
}
await() {
    local id="job_$1"
    until [[ $(gjobs -a -noheader -o stat "${!id}") = "$2" ]]; do sleep 0.1; done
}
"""


@dataclass(frozen=True)
class Example:
    """One transcript: commands with what they print."""

    page: str
    line: int
    commands: tuple[tuple[str, str], ...]
    setup: str = ""
    why_not_run: str = ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def examples(page: Path) -> Iterator[Example]:
    text = page.read_text("utf-8")
    for found in BLOCK.finditer(text):
        kind, comment, body = found[1] or "", (found[2] or "").strip(), found[3]
        yield Example(
            page.name,
            text.count("\n", 0, found.start(3)) + 1,
            tuple(commands(body)),
            setup=comment if kind.startswith("setup") else "",
            why_not_run=comment if kind.startswith("not run") else "",
        )


def picture() -> Example:
    """The transcript that docs/terminal.svg shows."""
    drawing = (ROOT / "docs" / "terminal.svg").read_text("utf-8")
    lines = [unescape(re.sub(r"<[^>]+>", "", line)) for line in re.findall(r"<text [^>]*>(.*)</text>", drawing)]
    return Example("terminal.svg", 1, tuple(commands("\n".join(lines))))


def commands(body: str) -> Iterator[tuple[str, str]]:
    """Each command of a transcript with its output."""
    lines = body.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("$ ")]
    assert starts and starts[0] == 0, f"a transcript begins with a command: {lines[:1]}"
    for begin, end in itertools.pairwise([*starts, len(lines)]):
        yield lines[begin].removeprefix("$ "), "\n".join(lines[begin + 1 : end])


# -- comparing --------------------------------------------------------------------------------------------------------

DATES = re.compile(r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\b")
NUMBERS = re.compile(r"\d+(\.\d+)?([KMGT]B?\b|%)?")


def plain(text: str) -> str:
    """The text without what may differ: numbers, dates, white space (columns, and where long lines are cut)."""
    text = NUMBERS.sub("#", DATES.sub("#", text))
    return re.sub(r"-{3,}", "-", re.sub(r"\s+", "", text))


def is_as_told(told: str, printed: str) -> bool:
    """Whether a command printed what the page says."""
    parts = [re.escape(plain(part)) for part in told.split("...")]
    return re.fullmatch(".*".join(parts), plain(printed)) is not None


# -- running ----------------------------------------------------------------------------------------------------------


@dataclass
class Reader:
    """Somebody who types what the page says, in a folder of his own, as the user who runs the tests."""

    folder: Path
    env: Mapping[str, str]
    names: Mapping[str, str]
    """What this machine calls what the pages call otherwise: user, home directory."""
    host: str = ""
    """This machine's name, where jobs come from; the pages call it gpu01."""
    jobs: dict[str, str] = field(default_factory=dict)
    """Numbers of jobs: on the page, here."""

    def play(self, example: Example) -> None:
        """Run the transcript; an assertion tells what was printed instead."""
        self.jobs = {}
        if example.setup:
            self._prepare(example)
        for command, shown in example.commands:
            told = self._there(shown)
            printed = self._type(command, told)
            assert not told or is_as_told(told, printed), f"{example}: $ {command}\n{printed}\n-- the page:\n{told}"

    def _prepare(self, example: Example) -> None:
        numbers = self.folder / ".numbers"
        numbers.write_text("")
        done = self._run("set -e\n" + FUNCTIONS + self._here(example.setup), DOC_JOBS=str(numbers))
        assert done.returncode == 0, f"{example}: {done.stdout}"
        self.jobs = dict(line.split() for line in numbers.read_text().splitlines())

    def _type(self, command: str, told: str) -> str:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            done = self._run(self._here(command))
            printed = self._there(done.stdout)
            self._learn(told, printed)
            is_right = is_as_told(told, printed) if told else done.returncode == 0
            if is_right or CHANGING.search(command) or time.monotonic() > deadline:
                assert told or done.returncode == 0, f"$ {command}\n{printed}"
                return printed
            time.sleep(LOOK_S)

    def _run(self, script: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.folder,
            env={**self.env, **env},
            timeout=PATIENCE_S,
        )

    def _learn(self, told: str, printed: str) -> None:
        """Numbers of the jobs that a command has submitted."""
        numbers = [re.findall(r"^Job <(\d+)> is submitted", text, re.MULTILINE) for text in (told, printed)]
        self.jobs.update(zip(*numbers, strict=False))

    def _here(self, text: str) -> str:
        """A page's command in this machine's names and numbers."""
        for name, here in self.names.items():
            text = re.sub(rf"(?<!\w){re.escape(name)}\b", here, text)
        if self.jobs:
            known = "|".join(map(re.escape, self.jobs))
            text = re.sub(rf"(?<![\w.:/-])({known})(?![\w.:/-])", lambda found: self.jobs[found[1]], text)
        return text

    def _there(self, text: str) -> str:
        """What was printed in the page's names; a column may have cut this machine's."""
        for name, here in {**self.names, "gpu01": self.host or "gpu01"}.items():
            cut = ["\\*" + re.escape(here[-length:]) for length in range(len(here) - 1, 2, -1)]
            cut += [re.escape(here[:length]) for length in range(len(here) - 1, 5, -1)]
            text = re.sub(rf"(?<!\w)({'|'.join([re.escape(here), *cut])})(?!\w)", name, text)
        return text


def typing_environment(home: Path, tools: Path) -> dict[str, str]:
    """The environment of somebody who has just logged in, with the commands in PATH."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GSCHED_", "LSF_", "LSB_"))}
    kept.update(HOME=str(home), TZ="UTC", LC_ALL="C.UTF-8", PATH=f"{tools}:{os.environ['PATH']}")
    return kept
