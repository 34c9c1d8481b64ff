"""What all printers share: directives as they are collected, what they say of a job, and what they cannot say."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, tzinfo

import msgspec

from gsched.dialect.converting.asked_scripts import CWD, HOME, PBS_DIALECT, SERVER, AskedScript
from gsched.model.jobs.job import JobSpec

_NOT_ASKED = (
    *("command", "user", "cwd", "front_end", "front_end_words", "index_shift", "queue_named", "defaulted", "umask"),
    *("home", "submit_host", "warnings", "notices", "notice_targets", "spooled_input", "warns_main"),
)
"""What no script says by itself."""


@dataclass(slots=True)
class PrintedLines:
    """Directives of one dialect, without the mark, and what is to be told."""

    asked: AskedScript
    zone: tzinfo
    lines: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    said: set[str] = field(default_factory=set)

    @property
    def spec(self) -> JobSpec:
        return self.asked.spec

    def add(self, line: str, *fields: str) -> None:
        """A directive that says these fields."""
        self.lines.append(line)
        self.said.update(fields)

    def note(self, about: str, text: str) -> None:
        """What is to be known of this field: it counts as said."""
        place = self.asked.places.get(about, "")
        self.notes.append(f"{place}: {text}" if place else text)
        self.said.add(about)

    def is_given(self, name: str) -> bool:
        """Whether the script itself sets this field."""
        return name in self.asked.places

    def finish(self, target: str) -> None:
        """Tells of the fields that nothing has said."""
        plain = msgspec.structs.asdict(JobSpec(command="", user="", queue=""))
        for name, value in msgspec.structs.asdict(self.spec).items():
            if (
                value == plain[name]
                or value == ""
                or name in self.said
                or name in _NOT_ASKED
                or name.endswith("_overwrite")
                or (name == "login_shell" and not self.is_given(name))  # PBS's jobs have one unasked
            ):
                continue
            if name == "limits":
                for limit in value:
                    self.note(f"limits.{limit}", f"the limit {limit} has no counterpart in {target}")
                continue
            shown = " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
            self.note(name, f"{_shown_field(name)} {shown[:60]} has no counterpart in {target}".replace(" True ", " "))
        self.notes += self.asked.unsaid

    def number_of_begin(self) -> datetime | None:
        """When it may start."""
        at = self.spec.begin_at
        if at is None:
            return None
        self.note(
            "begin_at", f"the time is {datetime.fromtimestamp(at, self.zone):%Y-%m-%d %H:%M}, a date of its own now"
        )
        return datetime.fromtimestamp(at, self.zone)


def _shown_field(name: str) -> str:
    return name.removesuffix("_s").replace("_", " ")


def word(text: str) -> str:
    """The text as one word of a directive: in quotes where it needs some."""
    if text and re.fullmatch(r"[A-Za-z0-9_@%+=:,./\-\[\]^$<>*~]+", text, re.ASCII):
        return text
    if "'" not in text:
        return f"'{text}'"
    return '"' + re.sub(r'(["\\$`])', r"\\\1", text) + '"'


def plain_path(path: str, asked: AskedScript) -> str:
    """The path as it is written in a script: relative to where it is submitted; %J and %I stand in it."""
    path = path.replace(f"%J[%i].{SERVER}", "%J").replace(f"%J[%I].{SERVER}", "%J").replace(f"%J.{SERVER}", "%J")
    if asked.dialect == PBS_DIALECT:
        path = path.replace("%i", "%I")
    return path.removeprefix(f"{CWD}/").replace(f"{HOME}/", "~/").replace(CWD, ".").replace(HOME, "~")


def start_folder(lines: PrintedLines) -> str:
    """Where the job is to run; empty: where it is submitted."""
    spec = lines.spec
    folder = spec.specified_cwd
    if not folder or folder == CWD:
        lines.said.add("specified_cwd")
        return ""
    if folder == HOME and not lines.is_given("specified_cwd"):
        lines.note("specified_cwd", "PBS starts jobs in the home directory; here they start where they are submitted")
        return ""
    if lines.asked.dialect == PBS_DIALECT and any(path.startswith(CWD) for path in (spec.output_file, spec.error_file)):
        lines.note("specified_cwd", "files of -o and -e count from there now, not from where it is submitted")
    lines.said.add("specified_cwd")
    return plain_path(folder, lines.asked)
