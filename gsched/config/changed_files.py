"""One value of the configuration files changed in their texts, as `gsched sim --set` asks: nothing is written.

    lsb.queues:short.PRIORITY=60    a section by its QUEUE_NAME or NAME: of lsb.queues, lsb.applications, lsb.resources
    lsb.params:GPU_PLACEMENT=scarce, GPU_PLACEMENT=scarce    lsb.params
    lsf.conf:LSF_UNIT_FOR_LIMITS=GB    lsf.conf

Whether the key and the value are any good is said by whoever loads the texts. A line that does not hold is replaced,
one that is missing is added at the end of its section.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gsched.base.errors import BadRequest
from gsched.config.grammar.findings import show

_FORM = re.compile(
    r"(?:(?P<file>[a-z]+\.[a-z]+):)?(?:(?P<section>[^=.\s]+)\.)?(?P<key>[A-Za-z_][A-Za-z0-9_]*)=(?P<value>[^\n\r]*)"
)
_SECTIONS = {
    "lsb.params": ("Parameters", ""),
    "lsb.queues": ("Queue", "QUEUE_NAME"),
    "lsb.applications": ("Application", "NAME"),
    "lsb.resources": ("Limit", "NAME"),
}
"""File -> which of its sections, and the key that names one of several."""
_PARAMS, _CONF = "lsb.params", "lsf.conf"


@dataclass(frozen=True, slots=True)
class Setting:
    """One value that is to be another."""

    text: str
    """As it was said."""
    file: str
    section: str
    """The name of the queue, profile or limit; empty in files where there is one section."""
    key: str
    value: str
    option: str = "--set"
    """That it was said with."""

    @property
    def words(self) -> str:
        """As it was typed."""
        return f"{self.option} {self.text}"


def parse_setting(text: str, option: str = "--set") -> Setting:
    """`[FILE:][SECTION.]KEY=VALUE`, given with that option. Raises BadRequest."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise BadRequest(
            f"{option} {show(text)}: wanted is [FILE:[SECTION.]]KEY=VALUE, lsb.queues:short.PRIORITY=60 say"
        )
    file, section = found["file"] or _PARAMS, found["section"] or ""
    if file != _CONF and file not in _SECTIONS:
        known = ", ".join([*_SECTIONS, _CONF])
        raise BadRequest(f"{option} {show(text)}: values of {file} cannot be changed here, but of {known}")
    named = file != _CONF and bool(_SECTIONS[file][1])
    if named and not section:
        raise BadRequest(f"{option} {show(text)}: which {_SECTIONS[file][0]}? {file}:NAME.{found['key']}=VALUE")
    if not named and section and section != "Parameters":
        raise BadRequest(f"{option} {show(text)}: {file} has no sections with names")
    return Setting(text, file, section if named else "", found["key"], found["value"].strip(), option)


def with_setting(content: str, setting: Setting) -> str:
    """The text of the setting's file with that value. Raises BadRequest where there is no such section."""
    lines = content.split("\n")
    if setting.file == _CONF:
        first, last = 0, len(lines)
    else:
        first, last = _section(lines, setting)
    line = f"{setting.key} = {setting.value}" if setting.file != _CONF else f"{setting.key}={_quoted(setting.value)}"
    begin = re.compile(rf"\s*{re.escape(setting.key)}\s*=")
    for place in range(first, last):
        if begin.match(lines[place]):
            end = place
            while lines[end].rstrip().endswith("\\") and end + 1 < last:
                end += 1
            lines[place : end + 1] = [line]
            return "\n".join(lines)
    lines.insert(last, line)
    return "\n".join(lines)


def _section(lines: list[str], setting: Setting) -> tuple[int, int]:
    """Where the body of the section begins, and the line of its End."""
    kind, naming = _SECTIONS[setting.file]
    first = None
    names = []
    for place, line in enumerate(lines):
        words = line.partition("#")[0].split()
        if len(words) == 2 and words[0].casefold() == "begin":
            first = place + 1 if words[1].casefold() == kind.casefold() else None
        elif words and words[0].casefold() == "end" and first is not None:
            name = _name(lines[first:place], naming) if naming else ""
            if name == setting.section:
                return first, place
            names.append(name)
            first = None
    known = f"; there are {', '.join(names)}" if names and naming else ""
    what = f"{kind} {show(setting.section)}" if naming else f"section {kind}"
    raise BadRequest(f"{setting.option} {show(setting.text)}: {setting.file} has no {what}{known}")


def _name(body: list[str], naming: str) -> str:
    for line in body:
        key, equals, value = line.partition("#")[0].partition("=")
        if equals and key.strip() == naming:
            return value.strip()
    return ""


def _quoted(value: str) -> str:
    return f'"{value}"' if " " in value else value
