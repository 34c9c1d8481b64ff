"""`gsched-pam`: what pam_exec runs when somebody logs in by ssh, and what tells a session of its job.

As root, from pam_exec (pam_exec(8)): the agent of this host is asked what becomes of the login of PAM_USER; it puts the
process that opens the session into the control group of the user's job. With `--session`, in the session: prints the
variables of that job as lines for the shell.

It is started without site packages and imports nothing heavy, for each login waits for it. Nothing of the environment
but pam_exec's own variables is looked at, and an agent that is not root's is not believed. When no agent answers only
root, the cluster's administrators and, with GSCHED_SSH=open, everybody are let in: then, and only then, the
configuration is read as a whole. Must never let in a user because something went wrong.
"""

from __future__ import annotations

import json
import os
import shlex
import site
import socket
import struct
import sys
from importlib import import_module

TYPE_CHECKING = False  # as typing says it, which is not imported here
if TYPE_CHECKING:
    from typing import Any

LOGIN_SOCKET, SESSION_SOCKET = "login.sock", "session.sock"
CONF_DIR = "/etc/gsched"
DEFAULT_RUN_DIR = "/run/gsched"
PATIENCE_S = 10.0
_MOST_CONF, _MOST_ANSWER = 1 << 20, 1 << 20
_LET_IN, _REFUSED, _USAGE = 0, 1, 2
LETS_IN = ("join", "no_gpu", "free")
"""Answers of the agent."""
_ASKED = ("account", "open_session")
USAGE = """\
usage: gsched-pam [--envdir DIR] [--session]

Run by pam_exec in /etc/pam.d/sshd: a session of ssh joins the running job of its user on this host, the newest
one or that of GSCHED_JOB, with its control group and limits, and ends with it. GSCHED_SSH in lsf.conf says what
becomes of users without a job.

Options:
  --envdir DIR   the configuration folder, by default /etc/gsched; GSCHED_ENVDIR is not looked at
  --session      in a session: print the variables of its job for the shell, and go over to the job of GSCHED_JOB
  -h, --help     show this and end
"""


def main(arguments: list[str]) -> int:
    """The exit code: 0 lets in."""
    conf_dir, in_session, rest = CONF_DIR, False, list(arguments)
    while rest:
        word = rest.pop(0)
        if word in ("-h", "--help"):
            sys.stdout.write(USAGE)
            return 0
        if word == "--session":
            in_session = True
        elif word == "--envdir" and rest and rest[0].startswith("/"):
            conf_dir = rest.pop(0)
        else:
            sys.stderr.write(f"gsched-pam: {word}: not an option, or without its value (gsched-pam --help)\n")
            return _USAGE
    if in_session:
        return _print_session(conf_dir)
    return _login(conf_dir)


def _login(conf_dir: str) -> int:
    user, kind = os.environ.get("PAM_USER", ""), os.environ.get("PAM_TYPE", "")
    if os.getuid() != 0 or not user:
        sys.stderr.write("gsched-pam: it is run by pam_exec, as root (gsched-pam --help)\n")
        return _USAGE
    if kind not in _ASKED or user == "root":
        return _LET_IN
    request = {"user": user, "type": kind, "job": os.environ.get("GSCHED_JOB", "")}
    try:
        told = _ask(f"{_run_dir(conf_dir)}/agent/{LOGIN_SOCKET}", request)
    except (OSError, ValueError) as error:
        return _login_without_agent(conf_dir, user, getattr(error, "strerror", None) or str(error))
    if told.get("answer") in LETS_IN:
        return _LET_IN
    print(f"gsched: {told.get('line') or 'refused'}", flush=True)
    return _REFUSED


def _login_without_agent(conf_dir: str, user: str, problem: str) -> int:
    """Who is let in when nobody can say what runs here."""
    try:
        site.main()  # left out at the start, by -S
        # Only now: a login is not to wait for it while the agent answers.
        config = import_module("gsched.app.pam_configuration").trusted_configuration(conf_dir)
        if user in config.administrators or config.ssh_access == "open":
            return _LET_IN
    except Exception as error:  # whatever it is, nobody is let in for it
        why = str(getattr(error, "text", None) or error).partition("\n")[0]
        problem = f"{problem}; {why}"
    print(f"gsched: the agent of this host does not answer ({problem}); tell an administrator", flush=True)
    return _REFUSED


def _run_dir(conf_dir: str) -> str:
    """GSCHED_RUNDIR as lsf.conf has it last. A wrong one leads to no socket of root's."""
    found = DEFAULT_RUN_DIR
    try:
        with open(f"{conf_dir}/lsf.conf", encoding="utf8", errors="replace") as file:
            text = file.read(_MOST_CONF)
    except OSError:
        return found
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and name.strip() == "GSCHED_RUNDIR":
            found = value.partition("#")[0].strip().strip("\"'") or found
    return found


def _ask(path: str, request: dict[str, str]) -> dict[str, Any]:
    """Raises OSError, ValueError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(PATIENCE_S)
        connection.connect(path)
        _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if uid != 0:
            raise ValueError(f"{path} is not root's")
        connection.sendall(json.dumps(request).encode() + b"\n")
        data = b""
        while not data.endswith(b"\n") and len(data) < _MOST_ANSWER:
            more = connection.recv(65536)
            if not more:
                raise ValueError("it closed the connection")
            data += more
    told = json.loads(data)
    if not isinstance(told, dict):
        raise ValueError("it answers something else")
    return told


def _print_session(conf_dir: str) -> int:
    """Lines for the shell; nothing outside of a session of a job, and where no agent answers."""
    try:
        told = _ask(f"{_run_dir(conf_dir)}/agent/{SESSION_SOCKET}", {"job": os.environ.get("GSCHED_JOB", "")})
    except (OSError, ValueError) as error:
        if os.environ.get("GSCHED_DEBUG") == "1":
            sys.stderr.write(f"gsched-pam: {error}\n")
        return 0
    for name, value in sorted(told.get("environment", {}).items()):
        if name.isidentifier():
            sys.stdout.write(f"export {name}={shlex.quote(str(value))}\n")
    if told.get("line"):
        sys.stderr.write(f"gsched: {told['line']}\n")
    return 0
