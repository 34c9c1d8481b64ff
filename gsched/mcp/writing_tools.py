"""The tools that change something: each shows first what it would do, and does it once that is confirmed.

Where the assistant's program can ask the person, the person is asked; where it cannot, the confirmation that came with
the preview has to be given. Never does more than the preview says.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from mcp.server.mcpserver import Context, Elicit, Resolve
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from gsched.api.cluster import Cluster
from gsched.base.coded_text import sentence
from gsched.base.errors import BadRequest
from gsched.base.ids import new_token, show_job
from gsched.cli.commands.submission.gsub import submission_of
from gsched.mcp.action_previews import ActionPreviews
from gsched.mcp.asked_submissions import asked_submission
from gsched.mcp.command_runs import ToolCall
from gsched.mcp.job_facts import job_facts
from gsched.mcp.reading_tools import one_job

SUBMIT, KILL = "submit", "kill"
ALLOWABLE = (SUBMIT, KILL)
"""What may be allowed to an assistant."""
MOST_KILLED = 100
"""Jobs of one request to end them."""
_SIGNAL = re.compile(r"[A-Za-z0-9]{1,10}")


class Preview(TypedDict):
    """What would be done, and what confirms it."""

    preview: str
    confirmation: str


class Consent(BaseModel):
    """What the person is asked."""

    agreed: bool = Field(title="Do it", description="Whether this is to be done")


class WritingTools:
    """Each public method but `all` is a tool; its docstring is what the assistant is told of it."""

    def __init__(self, cluster: Cluster, allowed: Sequence[str], previews: ActionPreviews) -> None:
        self._cluster = cluster
        self._allowed = allowed
        self._previews = previews

    def all(self) -> list[Callable[..., Any]]:
        """Those that are allowed, and what confirms them."""
        found: list[Callable[..., Any]] = []
        if SUBMIT in self._allowed:
            found.append(self.submit_job)
        if KILL in self._allowed:
            found.append(self.kill_jobs)
        return [*found, self._confirming()] if found else []

    def submit_job(self, command: str, options: Sequence[str] = ()) -> Preview:
        """Prepare the submission of a job and show what would happen; nothing is submitted before confirm_action.

        `command` is a line for the shell. `options` are those of gsub (bsub), a word each: ["-R",
        "rusage[ngpus_excl_p=1]", "-W", "2:00", "-q", "short", "-o", "out.%J", "-cwd", "/work"].
        """
        found = asked_submission(command, options, self._cluster.folder)
        told = found.dry_run()
        submission, token = submission_of(found.call, found.asked), new_token()

        def submit() -> str:
            submitted = self._cluster.client().submit(submission, token=token)
            said = "".join(f"\n{sentence(warning)}" for warning in submitted.warnings)
            return f"Job <{show_job(submitted.job_id)}> is submitted to queue <{submitted.queue}>.{said}"

        line, call = shlex.join(["gsub", *found.words]), found.call
        return self._preview(f"Submit as {call.user}, from {call.cwd}:\n{line}\n{told.strip()}", submit)

    def kill_jobs(self, jobs: Sequence[str], signal: str = "") -> Preview:
        """Prepare to end jobs (or to send them a signal: USR2, HUP ...) and show them; nothing is done before
        confirm_action. `jobs` are numbers: 12, 12[3]; an array's number stands for all of its elements.
        """
        if not 0 < len(jobs) <= MOST_KILLED:
            raise BadRequest(f"jobs names 1 to {MOST_KILLED} jobs")
        if signal and not _SIGNAL.fullmatch(signal):
            raise BadRequest(f"signal={signal[:20]!r} is no signal")
        numbers = [one_job(job) for job in jobs]
        lines = [line for number in numbers for line in self._lines(number)]
        words = ["gkill", *(["-s", signal] if signal else []), *map(show_job, numbers)]

        def kill() -> str:
            return ToolCall(words, self._cluster.folder).run()

        return self._preview("\n".join([shlex.join(words), *lines]), kill)

    def _lines(self, number: int) -> list[str]:
        """The job, or the elements of the array, a line each."""
        found = [job_facts(view) for view in self._cluster.job(number).elements()]
        return [
            f"{each['job']} {each['state']} {each['user']} {each['name'] or each['command'][:60]}" for each in found
        ]

    def _preview(self, told: str, do: Callable[[], str]) -> Preview:
        return Preview(preview=told, confirmation=self._previews.add(told, do))

    def _confirming(self) -> Callable[..., Any]:
        previews = self._previews

        def asked(confirmation: str, ctx: Context[Any, Any]) -> Consent | Elicit[Consent]:
            told, able = previews.told(confirmation), ctx.client_capabilities
            if not told or able is None or able.elicitation is None:
                return Consent(agreed=True)
            return Elicit(told, Consent)

        def confirm_action(confirmation: str, consent: Annotated[Consent, Resolve(asked)]) -> str:
            """Do what submit_job or kill_jobs has shown. `confirmation` is what came with the preview; show the preview
            to the person first. Good once and for ten minutes; asked again, it tells what came of it.
            """
            if not consent.agreed:
                previews.drop(confirmation)
                raise BadRequest("the person did not agree: nothing was done")
            return previews.confirm(confirmation)

        # Where the package looks for them: names of this function are not found by it otherwise.
        confirm_action.__annotations__ = {
            "confirmation": str,
            "consent": Annotated[Consent, Resolve(asked)],
            "return": str,
        }
        asked.__annotations__ = {"confirmation": str, "ctx": Context, "return": Consent | Elicit[Consent]}
        return confirm_action
