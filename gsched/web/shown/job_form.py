"""A form for a new job: its fields, and the gsub line that they stand for. What options mean is gsub's to say."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import msgspec

from gsched.base.errors import BadRequest
from gsched.model.jobs.job import JobSpec

LONGEST = 4_000
LONGEST_SCRIPT = 500_000
OPTIONS: Mapping[str, str] = {
    "queue": "-q",
    "gpus": "-gpu",
    "slots": "-n",
    "requirement": "-R",
    "hosts": "-m",
    "run_limit": "-W",
    "dependency": "-w",
    "project": "-P",
    "cwd": "-cwd",
    "output": "-o",
    "notify": "--notify",
}
"""Field -> gsub's option; name, array, more and command have their own ways."""


class JobForm(msgspec.Struct, frozen=True, kw_only=True):
    """The fields as they were filled in."""

    command: str = ""
    is_script: bool = False
    """`command` is the text of a script."""
    name: str = ""
    array: str = ""
    queue: str = ""
    gpus: str = ""
    """A number, or what -gpu takes."""
    slots: str = ""
    requirement: str = ""
    hosts: str = ""
    run_limit: str = ""
    dependency: str = ""
    project: str = ""
    cwd: str = ""
    output: str = ""
    notify: str = ""
    more: str = ""
    """Further words of the command line."""

    def words(self) -> list[str]:
        """The words behind gsub. Raises BadRequest."""
        found = []
        if self.name or self.array:
            found += ["-J", self.name + (f"[{self.array}]" if self.array else "")]
        for field, option in OPTIONS.items():
            if value := getattr(self, field):
                found += [option, f"num={value}" if field == "gpus" and value.isdecimal() else value]
        try:
            found += shlex.split(self.more)
        except ValueError as error:
            raise BadRequest(f"more options: {error}") from None
        return found if self.is_script or not self.command else [*found, self.command]

    def line(self) -> str:
        """What one would type. Raises BadRequest."""
        return " ".join(["gsub", *map(shlex.quote, self.words())]) + (" < script" if self.is_script else "")


def read_job_form(fields: Mapping[str, list[str]]) -> JobForm:
    """The form from what a browser sends. Raises BadRequest for what is too long or no text."""
    values: dict[str, str] = {}
    for name in JobForm.__struct_fields__:
        value = fields.get(name, [""])[-1].replace("\r\n", "\n")
        most = LONGEST_SCRIPT if name == "command" else LONGEST
        if len(value) > most or "\0" in value:
            raise BadRequest(f"{name}: that is too long, or no text")
        values[name] = value if name == "command" else value.strip()
    is_script = values.pop("is_script") == "1"
    if not is_script:
        values["command"] = values["command"].strip()
    return JobForm(**values, is_script=is_script)


def form_of(spec: JobSpec, script: bytes) -> JobForm:
    """The form that submits a job like this one again."""
    return JobForm(
        command=script.decode("utf8", "replace") if script else spec.command,
        is_script=bool(script),
        name=spec.name,
        array=spec.indices,
        queue=spec.queue if spec.queue_named else "",
        gpus=""
        if spec.gpu_req == "-"
        else spec.gpu_req.removeprefix("num=")
        if _is_count(spec.gpu_req)
        else spec.gpu_req,
        slots=str(spec.slots) if spec.slots > 1 else "",
        requirement=spec.res_req,
        hosts=" ".join(spec.hosts),
        run_limit=f"{spec.run_limit_s // 60}" if spec.run_limit_s is not None else "",
        dependency=spec.dependency,
        project=spec.project if spec.project != "default" else "",
        cwd=spec.run_dir,
        output=spec.output_file,
    )


def _is_count(gpu_req: str) -> bool:
    return gpu_req.removeprefix("num=").isdecimal()
