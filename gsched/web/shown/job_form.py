"""A form for a new job: its fields, and the gsub line that they stand for. What options mean is gsub's to say."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from gsched.base.errors import BadRequest
from gsched.model.jobs.job import JobSpec
from gsched.model.jobs.notice import EVENTS, MAIL

LONGEST = 4_000
LONGEST_SCRIPT = 500_000
MOST_CHOSEN = 100
"""Jobs that one may wait for by choosing them."""
AFTER = ("done", "ended", "exit", "started")
"""Conditions that a form offers; any other can be written."""
OPTIONS: Mapping[str, str] = {
    "queue": "-q",
    "slots": "-n",
    "requirement": "-R",
    "hosts": "-m",
    "run_limit": "-W",
    "begin": "-b",
    "project": "-P",
    "cwd": "-cwd",
    "output": "-o",
    "plot": "--plot",
}
"""Field -> gsub's option; other fields have their own ways."""
_JOB = re.compile(r"[0-9]{1,10}(\[[0-9]{1,10}\])?", re.ASCII)


class JobForm(msgspec.Struct, frozen=True, kw_only=True):
    """The fields as they were filled in."""

    command: str = ""
    is_script: bool = False
    """`command` is the text of a script."""
    name: str = ""
    array: str = ""
    queue: str = ""
    gpus: str = ""
    """Their number."""
    gpu_more: str = ""
    """What else -gpu takes."""
    slots: str = ""
    requirement: str = ""
    hosts: str = ""
    run_limit: str = ""
    begin: str = ""
    after: tuple[str, ...] = ()
    """Numbers of jobs that come first."""
    after_how: str = "done"
    dependency: str = ""
    project: str = ""
    cwd: str = ""
    output: str = ""
    notify: str = ""
    """Whom to tell; empty: nobody, or mail where `notify_on` says of what."""
    notify_on: tuple[str, ...] = ()
    plot: str = ""
    more: str = ""
    """Further words of the command line."""

    def words(self) -> list[str]:
        """The words behind gsub. Raises BadRequest."""
        found = list(self._own_words())
        for field, option in OPTIONS.items():
            if value := getattr(self, field):
                found += [option, value]
        try:
            found += shlex.split(self.more)
        except ValueError as error:
            raise BadRequest(f"more options: {error}") from None
        return found if self.is_script or not self.command else [*found, self.command]

    def _own_words(self) -> Iterator[str]:
        if self.name or self.array:
            yield from ("-J", self.name + (f"[{self.array}]" if self.array else ""))
        if self.gpus or self.gpu_more:
            number = f"num={self.gpus}" if self.gpus.isdecimal() else self.gpus
            yield from ("-gpu", ":".join(filter(None, (number, self.gpu_more))))
        if self.after or self.dependency:
            yield from ("-w", self._condition())
        if self.notify or self.notify_on:
            yield from ("--notify", ",".join((self.notify or MAIL, *self.notify_on)))

    def _condition(self) -> str:
        parts = [f"({self.dependency})"] if self.dependency and self.after else [self.dependency]
        return " && ".join(filter(None, (*parts, *(f"{self.after_how}({number})" for number in self.after))))

    def line(self) -> str:
        """What one would type. Raises BadRequest."""
        return " ".join(["gsub", *map(shlex.quote, self.words())]) + (" < script" if self.is_script else "")


def read_job_form(fields: Mapping[str, list[str]]) -> JobForm:
    """The form from what a browser sends. Raises BadRequest for what is too long, no text, or no choice of the form."""
    values: dict[str, Any] = {}
    for name, default in msgspec.structs.asdict(JobForm()).items():
        if isinstance(default, tuple):
            continue
        value = fields.get(name, [str(default) if name == "after_how" else ""])[-1].replace("\r\n", "\n")
        most = LONGEST_SCRIPT if name == "command" else LONGEST
        if len(value) > most or "\0" in value:
            raise BadRequest(f"{name}: that is too long, or no text")
        values[name] = value if name == "command" else value.strip()
    is_script = values.pop("is_script") == "1"
    if not is_script:
        values["command"] = values["command"].strip()
    return JobForm(**(values | _choices(fields, values)), is_script=is_script)


def _choices(fields: Mapping[str, list[str]], values: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    after = tuple(dict.fromkeys(filter(None, fields.get("after", ()))))
    if len(after) > MOST_CHOSEN or not all(_JOB.fullmatch(each) for each in after):
        raise BadRequest(f"after: numbers of jobs, {MOST_CHOSEN} at most")
    if values["after_how"] not in AFTER:
        raise BadRequest("after: there is no such condition")
    events = fields.get("notify_on", ())
    if not all(event in EVENTS for event in events):
        raise BadRequest("notify: there is no such event")
    return {"after": after, "notify_on": tuple(event for event in EVENTS if event in events)}


def form_of(spec: JobSpec, script: bytes) -> JobForm:
    """The form that submits a job like this one again."""
    gpus, gpu_more = _gpus(spec.gpu_req)
    return JobForm(
        command=script.decode("utf8", "replace") if script else spec.command,
        is_script=bool(script),
        name=spec.name,
        array=spec.indices,
        queue=spec.queue if spec.queue_named else "",
        gpus=gpus,
        gpu_more=gpu_more,
        slots=str(spec.slots) if spec.slots > 1 else "",
        requirement=spec.res_req,
        hosts=" ".join(spec.hosts),
        run_limit=f"{spec.run_limit_s // 60}" if spec.run_limit_s is not None else "",
        dependency=spec.dependency,
        project=spec.project if spec.project != "default" else "",
        cwd=spec.run_dir,
        output=spec.output_file,
        plot=_plot(spec)[0],
        more=_plot(spec)[1],
    )


def _gpus(gpu_req: str) -> tuple[str, str]:
    """Their number, and what else stands in -gpu."""
    parts = gpu_req.split(":") if gpu_req != "-" else []
    numbers = [part.removeprefix("num=") for part in parts if part.startswith("num=")]
    others = [part for part in parts if not part.startswith("num=")]
    if len(numbers) == 1 and numbers[0].isdecimal():
        return numbers[0], ":".join(filter(None, others))
    return "", ":".join(filter(None, parts))


def _plot(spec: JobSpec) -> tuple[str, str]:
    """The first --plot, and words for the others."""
    texts = [f"{plot.name}={plot.pattern}" for plot in spec.plots]
    return "".join(texts[:1]), " ".join(f"--plot {shlex.quote(text)}" for text in texts[1:])
