"""--service, --service-users and --notebook of gsub: programs with a page of their own.

Read and checked as texts. Which port it becomes is the agent's to say, whom the names mean the master's.
"""

from __future__ import annotations

from gsched.base.errors import BadRequest
from gsched.dialect.options import Parsed, told_of
from gsched.model.jobs.job_service import AUTO_PORT, LEAST_PORT, MOST_PORT, MOST_USERS, PORT, TOKEN, is_service

NOTEBOOK_NAME = "notebook"
"""Of a job without -J: its command says little."""
JUPYTER_TOKEN = "JUPYTER_TOKEN"
NOTEBOOK = (
    f'{JUPYTER_TOKEN}="${TOKEN}" exec jupyter lab --no-browser --ip=127.0.0.1 --port="${PORT}" '
    "--ServerApp.port_retries=0 --allow-root"
)
"""The command of --notebook. JupyterLab takes its token from its environment, which only its user can read; who may run
jobs as root may run this one too.
"""


def read_service(text: str) -> str:
    """The value of --service, as JobSpec.service has it. Raises BadRequest."""
    word = text.strip()
    if not is_service(word):
        raise BadRequest(f"--service: '{text[:40]}' is neither {AUTO_PORT} nor a port from {LEAST_PORT} to {MOST_PORT}")
    return word if word == AUTO_PORT else str(int(word))


def read_service_users(text: str) -> tuple[str, ...]:
    """The names given with --service-users, each once. Raises BadRequest."""
    names = tuple(dict.fromkeys(text.split()))
    if not 0 < len(names) <= MOST_USERS:
        raise BadRequest(f"--service-users takes 1 to {MOST_USERS} names of users, not {len(names)}")
    return names


def check_service(options: Parsed) -> None:
    """That there is one command, and a page where others are let in. Raises BadRequest."""
    if options.has("-service") and options.has("-notebook"):
        with told_of(options.line("-service", "-notebook")):
            raise BadRequest("options --service and --notebook exclude each other: --notebook is --service auto")
    if options.has("-service-users") and not options.has("-service", "-notebook"):
        with told_of(options.line("-service-users")):
            raise BadRequest("option --service-users needs --service or --notebook beside it")
