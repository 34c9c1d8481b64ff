"""No process that has gRPC forks: what forks stands in the modules of the fork server, and nowhere else.

A fork runs the handlers that gRPC has registered (pthread_atfork(3)), and its child dies of them now and then before it
has become the program. Python starts programs by vfork(2), which runs none, as long as it need not become somebody.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FORKING = {f"gsched/run/{name}.py" for name in ("forkserver", "supervisor", "steps", "jobprocess", "tasks", "fence/v2")}
"""Modules whose code runs in the fork server and its children alone."""
FORKS = {"fork", "forkpty", "fork_into", "fork_step", "run_step"}
NOWHERE = {"system", "popen", "spawnl", "spawnle", "spawnlp", "spawnlpe", "spawnv", "spawnve", "spawnvp", "spawnvpe"}
"""Functions of os that fork, or do with an old C library."""
MODULES = {"multiprocessing", "pty", "concurrent.futures.process"}
STARTS = {"run", "Popen", "call", "check_call", "check_output"}
STARTS_ASYNC = {"create_subprocess_exec", "create_subprocess_shell", "subprocess_exec", "subprocess_shell"}
BECOMING = {"user", "group", "extra_groups", "preexec_fn"}
"""Options for which Python forks; what the others say (cwd, umask, start_new_session, pass_fds …) it does by vfork."""
PURE = ("core", "policy", "model", "resreq")
"""Floors that start nothing; what is forked there is no process."""


def starts_a_program(call: ast.Call) -> bool:
    function = call.func
    if isinstance(function, ast.Attribute):
        is_subprocess = isinstance(function.value, ast.Name) and function.value.id == "subprocess"
        return function.attr in STARTS_ASYNC or (is_subprocess and function.attr in STARTS)
    return isinstance(function, ast.Name) and function.id in STARTS_ASYNC | {"Popen"}


def complaints(text: str, *, may_fork: bool) -> Iterator[str]:
    """What in this source forks."""
    for node in ast.walk(ast.parse(text)):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Import | ast.ImportFrom):
            found = imported(node)
        elif isinstance(node, ast.Attribute):
            found = named(node, FORKS if not may_fork else set())
        elif isinstance(node, ast.Name):
            found = {node.id} & FORKS if not may_fork else set()
        elif isinstance(node, ast.Call):
            options = {each.arg or "**" for each in node.keywords} & {*BECOMING, "**"}
            found = options if starts_a_program(node) else options & {"preexec_fn"}
        else:
            continue
        yield from (f"{line}: {each}" for each in sorted(found))


def imported(node: ast.Import | ast.ImportFrom) -> set[str]:
    names = {each.name for each in node.names}
    source = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
    found = {source, *names} & (MODULES | {"ProcessPoolExecutor"})
    if source == "os":
        found |= names & (FORKS | NOWHERE)
    if source == "subprocess":  # whoever reads a call is to see what it is
        found |= names
    return found


def named(node: ast.Attribute, forks: set[str]) -> set[str]:
    is_of_os = isinstance(node.value, ast.Name) and node.value.id == "os"
    return {node.attr} & (
        {"_USE_VFORK", "_USE_POSIX_SPAWN", "ProcessPoolExecutor"} | forks | (NOWHERE if is_of_os else set())
    )


def test_what_forks_is_the_fork_servers() -> None:
    found = []
    for path in sorted((ROOT / "gsched").rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if path.relative_to(ROOT).parts[1] in PURE:
            continue
        found += [f"{name}:{each}" for each in complaints(path.read_text(), may_fork=name in FORKING)]
    assert found == [], "have it run by the fork server (gsched.run.program)"


@pytest.mark.parametrize(
    "text",
    [
        "os.fork()",
        "pid = group.fork()",
        "steps.run_step(x)",
        "from os import fork",
        "import pty",
        "import multiprocessing",
        "os.system('x')",
        "subprocess.run(words, user=1)",
        "subprocess.Popen(words, group=1)",
        "subprocess.run(words, **more)",
        "await asyncio.create_subprocess_exec(*words, extra_groups=[])",
        "await loop.subprocess_exec(make, *words, preexec_fn=f)",
        "subprocess._USE_VFORK = False",
        "from subprocess import run",
        "concurrent.futures.ProcessPoolExecutor()",
    ],
)
def test_each_way_to_fork_is_noticed(text: str) -> None:
    assert list(complaints(f"async def f():\n    {text}\n", may_fork=False))


COUNT = """
import asyncio, ctypes, os, subprocess, sys
libc, forks = ctypes.CDLL(None), []
handler = ctypes.CFUNCTYPE(None)(lambda: forks.append(1))
if not hasattr(libc, "__register_atfork"):
    sys.exit("this C library does not tell of forks")
libc.__register_atfork(handler, None, None, None)
words, (end, _) = ["/bin/true"], os.pipe()
subprocess.run(words, check=True)
subprocess.run(words, cwd="/", env={}, start_new_session=True, umask=0o77, pass_fds=[end], check=True)
subprocess.run(words, close_fds=False, stdin=subprocess.DEVNULL, capture_output=True, process_group=0, check=True)
async def story():
    process = await asyncio.create_subprocess_exec(*words, cwd="/", start_new_session=True)
    assert await process.wait() == 0
asyncio.run(story())
print(len(forks))
for option in ({"user": os.getuid()}, {"group": os.getgid()}, {"preexec_fn": lambda: None}):
    subprocess.run(words, check=True, **option)
print(len(forks))
"""


def test_python_forks_for_these_options_and_for_no_others() -> None:
    """Seen by a handler like those of gRPC."""
    done = subprocess.run([sys.executable, "-c", COUNT], capture_output=True, text=True, check=False)
    if "does not tell of forks" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.stdout.split() == ["0", "3"], done.stderr
