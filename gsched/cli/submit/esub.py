"""Runs esubs on the submission host: programs that a site has look at every submission, and change or refuse it.

They are run as the caller, in the caller's directory, with the caller's environment; a door that serves others never
runs one. What they print goes to the caller's standard error. Source: esub(8).
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gsched.base.envdir import read_setting
from gsched.base.errors import BadRequest, PermissionDenied
from gsched.cli.session.call import Call
from gsched.cli.session.master_links import folder_of, serves_others
from gsched.dialect.esub import ABORT, ABORTED, RESET, Changes, Esub, read_lines, write_lines

METHOD = "LSB_ESUB_METHOD"
_NAMED = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)(?:\((?P<arguments>[^()]*)\))?")


def esubs_of(call: Call) -> Esub:
    """What runs the esubs of the call's submissions."""
    try:
        folder = folder_of(call)
        server_dir = read_setting(folder, "LSF_SERVERDIR")
        method = call.env.get(METHOD) or read_setting(folder, METHOD)
    except (BadRequest, PermissionDenied):
        server_dir = method = ""  # the session will say what is wrong with the folder
    return _Runner(call, server_dir, method.split()).run


class _Runner:
    """The esubs of one call."""

    def __init__(self, call: Call, server_dir: str, methods: Sequence[str]) -> None:
        self._call, self._server_dir, self._methods = call, server_dir, methods

    def run(self, names: Sequence[str], parameters: Callable[[], Mapping[str, str]]) -> Changes:
        """esub itself, then those that the cluster names, then those of -a; a later one sees what earlier ones did."""
        programs = self._programs(names)
        if not programs:
            return Changes({}, {})
        if serves_others():
            self._call.take_over()  # as the caller, and nowhere else
        changes: dict[str, str] = {}
        variables: dict[str, str] = {}
        told = dict(parameters())
        if self._methods or names:
            told["LSB_SUB_ADDITIONAL"] = " ".join((*self._methods, *names))
        for path, arguments in programs:
            wanted, added = self._run_one(path, arguments, told)
            for name, value in wanted.items():
                told.pop(name, None)
                if value != RESET:
                    told[name] = value
            changes |= wanted
            variables |= added
        return Changes(changes, variables)

    def _programs(self, names: Sequence[str]) -> list[tuple[str, list[str]]]:
        found: list[tuple[str, list[str]]] = []
        plain = os.path.join(self._server_dir, "esub")
        if self._server_dir and os.path.exists(plain):
            found.append((plain, []))
        for word in (*self._methods, *names):
            named = _NAMED.fullmatch(word)
            if named is None:
                raise BadRequest(f"-a: '{word[:60]}' is not of the form NAME or NAME(ARGUMENTS)")
            path = os.path.join(self._server_dir, f"esub.{named['name']}")
            if not self._server_dir or not os.path.exists(path):
                raise BadRequest(
                    f"esub.{named['name']}: there is no such esub in {self._server_dir or 'LSF_SERVERDIR'}"
                )
            found.append((path, [each for each in (named["arguments"] or "").split(",") if each]))
        return found

    def _run_one(
        self, path: str, arguments: Sequence[str], parameters: Mapping[str, str]
    ) -> tuple[dict[str, str], dict[str, str]]:
        call, name = self._call, os.path.basename(path)
        with tempfile.TemporaryDirectory(prefix="gsched-esub-") as text:
            folder = Path(text)
            files = {
                "LSB_SUB_PARM_FILE": folder / "parameters",
                "LSB_SUB_MODIFY_FILE": folder / "modify",
                "LSB_SUB_MODIFY_ENVFILE": folder / "environment",
            }
            files["LSB_SUB_PARM_FILE"].write_bytes(write_lines(parameters).encode("utf-8", "surrogateescape"))
            environment = {
                **call.env,
                **{variable: str(file) for variable, file in files.items()},
                "LSB_SUB_ABORT_VALUE": str(ABORT),
                "LSF_SERVERDIR": self._server_dir,
            }
            code = self._execute([path, *arguments], environment, name)
            if code == ABORT:
                raise BadRequest(ABORTED)
            if code:
                raise BadRequest(f"{name} failed with exit code {code}")
            return (
                _read(files["LSB_SUB_MODIFY_FILE"], f"LSB_SUB_MODIFY_FILE of {name}"),
                _read(files["LSB_SUB_MODIFY_ENVFILE"], f"LSB_SUB_MODIFY_ENVFILE of {name}"),
            )

    def _execute(self, argv: Sequence[str], environment: Mapping[str, str], name: str) -> int:
        call = self._call
        encoded = {_bytes(key): _bytes(value) for key, value in environment.items()}
        try:
            process = subprocess.Popen(
                [_bytes(word) for word in argv],
                cwd=call.cwd,
                env=encoded,
                umask=call.umask,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise BadRequest(f"{name} cannot be run: {error.strerror}") from None
        call.on_cancel(process.kill)
        output, _ = process.communicate()
        if output:
            call.error(output.decode("utf-8", "surrogateescape"))
        call.raise_if_cancelled()
        return process.returncode


def _read(file: Path, what: str) -> dict[str, str]:
    try:
        return read_lines(file.read_bytes().decode("utf-8", "surrogateescape"), what)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BadRequest(f"{what} cannot be read: {error.strerror}") from None


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
