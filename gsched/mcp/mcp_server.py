"""The server of the Model Context Protocol, put together and run over standard input and output.

Writes nothing but the protocol to standard output. An error of gsched is one line for the assistant, never a traceback.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

from gsched import __version__
from gsched.api.cluster import Cluster
from gsched.base.errors import BadRequest, GschedError
from gsched.mcp.action_previews import ActionPreviews
from gsched.mcp.reading_tools import ReadingTools
from gsched.mcp.writing_tools import ALLOWABLE, WritingTools

_ABOUT = """gsched schedules batch jobs on shared GPU hosts, in the manner of IBM Spectrum LSF. Ask it which jobs run
and wait and why, what GPUs are doing, how well jobs used them. States are LSF's: PEND waits, RUN runs, DONE and EXIT
have ended. Job numbers look like 12, or 12[3] for an element of an array."""
_ABOUT_WRITING = """ submit_job and kill_jobs only show what they would do: show that to the person, then call
confirm_action."""
_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_PREPARES = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
_CHANGES = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)


def allowed_of(text: str) -> tuple[str, ...]:
    """The value of --allow, `submit,kill`. Raises BadRequest naming a word that it does not know."""
    words = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    for word in words:
        if word not in ALLOWABLE:
            raise BadRequest(f"--allow: {word!r} is none of {', '.join(ALLOWABLE)}")
    return words


def server_of(
    cluster: Cluster, allowed: Sequence[str] = (), clock: Callable[[], float] = time.monotonic
) -> MCPServer[Any]:
    """A server for that cluster; without `allowed` it only reads."""
    about = _ABOUT + (_ABOUT_WRITING if allowed else "")
    server: MCPServer[Any] = MCPServer(
        "gsched", instructions=about.replace("\n", " "), version=__version__, log_level="WARNING"
    )
    for tool in ReadingTools(cluster).all():
        server.add_tool(_plain(tool), annotations=_READS)
    for tool in WritingTools(cluster, allowed, ActionPreviews(clock)).all():
        confirms = tool.__name__ == "confirm_action"
        server.add_tool(_plain(tool), annotations=_CHANGES if confirms else _PREPARES)
    return server


def _plain(tool: Callable[..., Any]) -> Callable[..., Any]:
    """The tool, whose refusals are told in their own words."""

    @functools.wraps(tool)
    def called(*args: Any, **words: Any) -> Any:
        try:
            return tool(*args, **words)
        except GschedError as error:
            raise ToolError(error.text) from None
        except OSError as error:
            raise ToolError(f"{error.filename or ''}: {error.strerror}".lstrip(": ")) from None
        except Exception as error:  # the last line of defence: nobody is shown a traceback unasked
            if os.environ.get("GSCHED_DEBUG") == "1":
                raise
            raise ToolError(f"internal error: {type(error).__name__}: {' '.join(str(error).split())}") from None

    return called


def run(conf_dir: str, allowed: str) -> int:
    """Serve until standard input ends; the exit code. Raises GschedError."""
    words = allowed_of(allowed)
    if sys.stdin.isatty():
        raise BadRequest("gsched mcp is started by an assistant's program, see gsched mcp --help")
    with Cluster(conf_dir) as cluster:
        server_of(cluster, words).run("stdio")
    return 0
