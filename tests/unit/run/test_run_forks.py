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
FORKING = {
    f"gsched/run/{name}.py"
    for name in (
        "forkserver",
        "supervisor/supervisor",
        "supervisor/steps",
        "supervisor/job_process",
        "supervisor/tasks",
        "fence/v2",
    )
}
"""Modules whose code runs in the fork server and its children alone."""
WITHOUT_GRPC = {"gsched/web/front/front_serving.py", "gsched/web/front/keeper.py"}
"""Modules of root's process of `gsched web`, which has no gRPC in it: it may fork, and start programs as others."""
SYSCALLS = "gsched/run/account.py"
"""By number it takes and gives up rights of one thread, which no function of Python's does."""
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


def is_of_subprocess(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "subprocess"


def starts_a_program(node: ast.AST) -> bool:
    """Whether it names a function, or a class, that starts one."""
    if isinstance(node, ast.Attribute):
        return node.attr in STARTS_ASYNC | {"Popen"} or (is_of_subprocess(node) and node.attr in STARTS)
    return isinstance(node, ast.Name) and node.id in STARTS_ASYNC | {"Popen"}


def complaints(text: str, *, may_fork: bool) -> Iterator[str]:
    """What in this source forks."""
    tree = ast.parse(text)
    # As a function that is called, or in a type (`Popen[bytes]`): anything else hides with what it is called.
    in_sight = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    in_sight |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Subscript)}
    forks: set[str] = set() if may_fork else FORKS
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Import | ast.ImportFrom):
            found = imported(node)
        elif isinstance(node, ast.Attribute):
            found = named(node, forks if may_fork else forks | {"syscall"})
        elif isinstance(node, ast.Name):
            found = {node.id} & forks
        elif isinstance(node, ast.Call):
            found = called(node)
        else:
            continue
        if starts_a_program(node) and id(node) not in in_sight:
            found = found | {"not called where it is named"}
        yield from (f"{line}: {each}" for each in sorted(found))


def called(node: ast.Call) -> set[str]:
    options = {each.arg or "**" for each in node.keywords} & {*BECOMING, "**"}
    found = options if starts_a_program(node.func) else options & {"preexec_fn"}
    if is_of_subprocess(node.func) and len(node.args) > 1:
        found.add("options without their names")
    if isinstance(node.func, ast.Name | ast.Attribute):
        name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
        words = {each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)}
        if name in {"getattr", "import_module", "__import__", "attrgetter"}:
            found |= words & {*FORKS, *MODULES, "subprocess"}
    return found


def imported(node: ast.Import | ast.ImportFrom) -> set[str]:
    names = {each.name for each in node.names}
    source = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
    paths = {source, *names, *(f"{source}.{name}" for name in names)}
    found = {path for path in paths for module in MODULES if f"{path}.".startswith(f"{module}.")}
    found |= names & ({"ProcessPoolExecutor"} | STARTS_ASYNC)
    if source == "os":
        found |= names & (FORKS | NOWHERE)
    if source == "subprocess" or any(each.name == "subprocess" and each.asname for each in node.names):
        found |= names  # whoever reads a call is to see what it is
    return found


def named(node: ast.Attribute, forks: set[str]) -> set[str]:
    is_of_os = isinstance(node.value, ast.Name) and node.value.id == "os"
    return {node.attr} & (
        {"_USE_VFORK", "_USE_POSIX_SPAWN", "ProcessPoolExecutor"} | forks | (NOWHERE if is_of_os else set())
    )


@pytest.mark.sources
def test_what_forks_is_the_fork_servers() -> None:
    found = []
    for path in sorted((ROOT / "gsched").rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if path.relative_to(ROOT).parts[1] in PURE or name in WITHOUT_GRPC:
            continue
        told = complaints(path.read_text(), may_fork=name in FORKING)
        found += [f"{name}:{each}" for each in told if name != SYSCALLS or not each.endswith(": syscall")]
    assert found == [], "have it run by the fork server (gsched.run.program)"


@pytest.mark.sources
def test_no_test_beside_daemons_becomes_somebody_or_runs_code_between_fork_and_exec() -> None:
    """There gRPC is in the process of the tests. A child that its threads end looks as if the program had failed."""
    found = []
    for folder in ("system", "hosts", "support"):
        for path in sorted((ROOT / "tests" / folder).rglob("*.py")):
            told = complaints(path.read_text(), may_fork=True)
            found += [f"{path.relative_to(ROOT)}:{each}" for each in told if each.split(": ")[1] in BECOMING]
    assert found == [], "begin the command with setsid --ctty (tests.support.terminal) or setpriv"


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
        "from concurrent.futures import process",
        "from multiprocessing.pool import Pool",
        "import multiprocessing.pool as pools",
        "importlib.import_module('multiprocessing')",
        "import subprocess as programs",
        "subprocess.Popen(words, -1, None, None, None, None, become)",
        "functools.partial(subprocess.run, user=1)",
        "run_it(subprocess.Popen)(words, user=1)",
        "start = subprocess.run",
        "from asyncio import create_subprocess_exec",
        "psutil.Popen(words, user=1)",
        "asyncio.to_thread(subprocess.run, words, user=1)",
        "getattr(os, 'fork')()",
        "libc.syscall(57)",
        "class Mine(subprocess.Popen):\n        pass",
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


def test_roots_process_of_the_pages_has_no_grpc() -> None:
    names = ", ".join(each.removesuffix(".py").replace("/", ".") for each in sorted(WITHOUT_GRPC))
    code = f"import sys, {names}; print('grpc' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert told.stdout == "False\n"
