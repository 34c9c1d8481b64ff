"""Commands of gsched that are run for an assistant, with their output as text. Never opens what the user could not."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from gsched.base.errors import BadRequest
from gsched.cli.session.call import Call, own_umask, read_regular_file, run_main

MOST_OUTPUT = 256 * 1024
"""Bytes of a command's standard output that an assistant is given."""
_KEPT = ("HOME", "PATH", "USER", "LOGNAME", "TZ", "GSCHED_COMMAND_WAIT", "GSCHED_USER_PROXY")
"""Variables that commands which only read are given: not those that change their layout."""

_UMASK = own_umask()
"""Read once: tools run in threads."""


class ToolCall(Call):
    """One run of a command as this process's user, from its directory, without a terminal and without input."""

    def __init__(self, argv: Sequence[str], conf_dir: str, *, only_reads: bool = True) -> None:
        own = os.environ
        environment = {name: own[name] for name in _KEPT if name in own} if only_reads else dict(own)
        environment["GSCHED_ENVDIR"] = conf_dir
        super().__init__(
            list(argv), cwd=os.getcwd(), env=environment, uid=os.getuid(), gid=os.getgid(), umask=_UMASK, columns=200
        )
        self._written: tuple[list[bytes], list[bytes]] = ([], [])

    def _put(self, stream: int, data: bytes) -> None:
        self._written[stream - 1].append(data)

    def _fetch(self, path: str | None) -> tuple[bytes, int | None]:
        if path is None:
            return b"", None
        return read_regular_file(path, self.cwd)

    def run(self) -> str:
        """Run it; its standard output, or what it said instead. Raises BadRequest with its error if it failed."""
        code = run_main(self.argv[0], self)
        output, errors = (b"".join(written).decode("utf-8", "replace") for written in self._written)
        if code:
            raise BadRequest(errors.strip() or output.strip() or f"{self.argv[0]} ended with exit code {code}")
        return output + errors


def text_of(argv: Sequence[str], conf_dir: str) -> str:
    """What a command that only reads prints, at most MOST_OUTPUT of it. Raises BadRequest."""
    text = ToolCall(argv, conf_dir).run()
    if len(text) <= MOST_OUTPUT:
        return text
    return text[:MOST_OUTPUT] + f"\n({len(text) - MOST_OUTPUT} characters more: ask for less)\n"


def json_of(argv: Sequence[str], conf_dir: str) -> dict[str, Any]:
    """The JSON that such a command prints. Raises BadRequest."""
    found: dict[str, Any] = json.loads(ToolCall(argv, conf_dir).run())
    return found
