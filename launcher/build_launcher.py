"""Builds the native launcher of the commands, and the program that waits in the place of supervisors, where there is a
C compiler; the build hook and tests call it.

It must never need anything but the interpreter's own modules, and never write outside the folder that it is given.
"""

from __future__ import annotations

import os
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent
NO_NATIVE = "GSCHED_NO_NATIVE"
"""Environment variable: `1` leaves the commands to the interpreter, compiler or not."""
ANY_NAME = "gsched-command"
"""The program under this name takes the command's name as its first argument: for the scripts of `gsched names`."""

LANGUAGE = ("-std=c11", "-Wall", "-Wextra", "-Wpedantic")
RELEASE = (
    *("-O2", "-fPIE", "-pie", "-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"),
    *("-Wl,-z,relro,-z,now", "-s"),
)
SOURCES = ("launcher.c", "door.c", "ending.c")
WAITER = "gsched-waiter"
"""The program that a supervisor becomes while its job runs, beside the interpreter that runs gsched."""
WAITER_SOURCES = ("waiter.c",)
STATIC = ("-O2", "-static", "-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-s")
"""Of the waiter: there is one for each job, and what a shared library writes into its own data none of them shares."""
COMPILE_LIMIT_S = 120.0

KINDS = (
    *("REQUEST", "GO", "DATA", "END", "FAILED", "CANCEL"),
    *("HELLO", "OUT", "ERR", "READ_FILE", "READ_STDIN", "EXIT", "REFUSED"),
)
NUMBERS = ("MAX_FRAME", "MAX_REQUEST", "INPUT_LIMIT", "PIECE", "FAILURE")
MODES = ("CHANGES", "SUBMITS", "READS", "READS_HISTORY", "WAITS", "STARTS_TASKS", "ATTENDS", "IS_ELIM")
DOOR_LINE = "gsched_door=\n"
"""Of bin/launcher: the program says in its place what it has done."""


class CannotCompile(Exception):
    """There is no native launcher to be had here; the text says why."""


def compiler() -> list[str]:
    """The C compiler: CC, which may have options, else cc or gcc. Raises CannotCompile."""
    wished = os.environ.get("CC")
    if wished:
        return shlex.split(wished)
    for name in ("cc", "gcc"):
        if shutil.which(name):
            return [name]
    raise CannotCompile("there is no C compiler (cc)")


def compile_launcher(folder: Path, flags: Sequence[str] = RELEASE) -> Path:
    """Compile the launcher in the folder and return its path. Raises CannotCompile."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "launcher_values.h").write_text(header(), encoding="utf8")
    return _compiled(folder / "native-launcher", SOURCES, flags)


def compile_waiter(folder: Path, flags: Sequence[str] = ()) -> Path:
    """Compile the waiter in the folder and return its path: without `flags` a static program where the C library allows
    that. Raises CannotCompile."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "waiter_values.h").write_text(waiter_header(), encoding="utf8")
    target = folder / WAITER
    if flags:
        return _compiled(target, WAITER_SOURCES, flags)
    try:
        return _compiled(target, WAITER_SOURCES, STATIC)
    except CannotCompile:  # there is no static C library
        return _compiled(target, WAITER_SOURCES, RELEASE)


def _compiled(target: Path, sources: Sequence[str], flags: Sequence[str]) -> Path:
    """The program made of these sources, with the headers beside it. Raises CannotCompile."""
    words = [
        *compiler(),
        *LANGUAGE,
        *flags,
        f"-I{target.parent}",
        f"-I{HERE}",
        "-o",
        str(target),
        *(str(HERE / name) for name in sources),
    ]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=COMPILE_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise CannotCompile(str(problem)) from None
    if done.returncode != 0:
        raise CannotCompile(f"{words[0]} fails:\n{done.stdout}{done.stderr}")
    return target


def waiter_header() -> str:
    """What the waiter shares with gsched.run.attempt_files."""
    files = runpy.run_path(str(ROOT / "gsched" / "run" / "attempt_files.py"))
    names = {"WAITER": WAITER, "WAITED": files["WAITED"]}
    lines = ["/* Written by build_launcher.py. */"]
    return "\n".join(lines + [f"#define {name} {_text(text.encode())}" for name, text in names.items()]) + "\n"


def header() -> str:
    """What the C source shares with gsched.app.launch and gsched.command_table, and the text of bin/launcher."""
    launch, table = _namespaces()
    lines = ["/* Written by build_launcher.py. */"]
    lines += [f"#define {name} {_letter(launch[name])}" for name in KINDS]
    lines += [f"#define {name} {launch[name]}" for name in NUMBERS]
    lines.append(f"#define HELLO_TIMEOUT_MS {int(launch['HELLO_TIMEOUT_S'] * 1000)}")
    lines += [f"#define {name} {_text(launch[name])}" for name in ("GREETING", "TOKEN_VARIABLE")]
    lines.append(f"#define ANY_NAME {_text(ANY_NAME.encode())}")
    lines.append(f"enum run_mode {{ {', '.join('MODE_' + name for name in MODES)} }};")
    lines.append("static const struct { const char *name; enum run_mode mode; } COMMANDS[] = {")
    lines += [f"    {{{_text(name.encode())}, MODE_{mode}}}," for name, mode in _commands(table)]
    lines.append("};")
    lines.append("static const char SCRIPT[] =")
    lines += [f"    {_text(line)}" for line in script().splitlines(keepends=True)]
    return "\n".join(lines) + ";\n"


def _namespaces() -> tuple[dict[str, Any], dict[str, Any]]:
    """What gsched.app.launch (with launch_streams) and gsched.command_table hold; they import nothing but the
    interpreter's own modules."""
    app = ROOT / "gsched" / "app"
    sys.path.insert(0, str(ROOT))
    try:
        launch = runpy.run_path(str(app / "launch_streams.py")) | runpy.run_path(str(app / "launch.py"))
    finally:
        sys.path.remove(str(ROOT))
    return launch, runpy.run_path(str(ROOT / "gsched" / "command_table.py"))


def _commands(table: dict[str, Any]) -> list[tuple[str, str]]:
    """Each name of a command, and the name of its mode."""
    modes = {table[name]: name for name in MODES}
    rows = [(name, mode) for ours, theirs, mode, _ in table["COMMANDS"] for name in (ours, theirs) if name]
    rows += [(name, mode) for name, mode, *_ in table["SLURM_COMMANDS"] + table["PBS_COMMANDS"]]
    return [(name, modes[mode]) for name, mode in rows]


def script() -> bytes:
    """bin/launcher without its line `gsched_door=`. Raises ValueError when that is not there once."""
    before, line, after = (ROOT / "bin" / "launcher").read_text(encoding="utf8").partition("\n" + DOOR_LINE)
    if not line or "\n" + DOOR_LINE in after:
        raise ValueError("bin/launcher needs one line `gsched_door=`")
    return f"\n{before}\n{after}".encode()


def _letter(data: bytes) -> str:
    return f"'{data.decode('ascii')}'"


def _text(data: bytes) -> str:
    """A string of C."""
    plain = {ord("\n"): "\\n", ord('"'): '\\"', ord("\\"): "\\\\"}
    return '"' + "".join(plain.get(byte, chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in data) + '"'
