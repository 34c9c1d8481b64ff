"""A command that runs on another host while this one stays its terminal, and that says nothing of the job that it is.

Words that people hear from gsub -I (waiting, starting, finished) are left out; why a task was ended is said.
"""

from __future__ import annotations

from collections.abc import Sequence

from gsched.base.coded_text import sentence
from gsched.base.errors import BadRequest, PermissionDenied
from gsched.base.ids import new_token
from gsched.cli.commands.submission.gsub import read_words, submission_of
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import program
from gsched.cli.session.session import Session, setting
from gsched.cli.submit.interactive import TerminalSession
from gsched.cli.submit.job_wait import TERMINATED_WHILE_PENDING
from gsched.dialect.options import Option, Parsed
from gsched.model.event import AnyEvent, JobFinished, JobRequeued, JobStarted

WHERE = (
    Option("m", "HOSTS", "on one of these hosts", '-m "gpu01 gpu02"'),
    Option("R", "REQUIREMENT", "on a host that meets this requirement", '-R "select[ngpus>0]"'),
)
VERBOSE = Option("v", help="say on which host it runs")
TERMINALS = (
    Option("P", help="with a pseudo-terminal"),
    Option("S", help="with a pseudo-terminal that passes every key on, as a shell needs it"),
)


class RemoteTask(TerminalSession):
    """The terminal of one task."""

    def __init__(
        self, call: Call, session: Session, job_id: int, kind: str, *, has_input: bool, said: str = ""
    ) -> None:
        """`said`: what is said on standard error when it starts, with `{host}`; empty: nothing."""
        super().__init__(call, session, job_id, kind, has_input=has_input)
        self._said = said

    def waits(self) -> None:
        """Not a word."""

    def is_ended(self) -> None:
        """Not a word."""

    def happened(self, event: AnyEvent) -> int | None:
        """As of any terminal, without the words of gsub."""
        match event:
            case JobStarted():
                if self._said:
                    self.call.error(self._said.format(host=self.host) + "\n")
                self._show(event.attempt)
                return None
            case JobRequeued():
                self.host = ""
                return None
            case JobFinished() if not (event.result.started or self.host):
                self.call.error(f"{program(self.call)}: the task was ended before it could start\n")
                return TERMINATED_WHILE_PENDING
        return super().happened(event)


def kind_of(options: Parsed) -> str:
    """How the task is attached to the terminal: `I`, `Ip` or `Is`."""
    return "Is" if options.has("S") else "Ip" if options.has("P") else "I"


def check_may_run_tasks(call: Call, session: Session) -> None:
    """LSF_DISABLE_LSRUN. It is a rule of the command alone: whoever may submit interactive jobs has gsub -I.

    Raises PermissionDenied for others than administrators of the cluster.
    """
    if (
        setting(call, "LSF_DISABLE_LSRUN").strip().upper() in ("Y", "YES")
        and not session.client.cluster().may_administer
    ):
        raise PermissionDenied(
            f"{program(call)}: User permission denied: LSF_DISABLE_LSRUN leaves it to administrators; use gsub -I"
        )


def placed(options: Parsed) -> list[str]:
    """-m and -R as gsub takes them."""
    return [word for name in ("m", "R") if options.has(name) for word in (f"-{name}", options.last(name))]


def start_task(
    call: Call, session: Session, kind: str, words: Sequence[str], command: Sequence[str], *, said: str = ""
) -> RemoteTask:
    """Submit it, with further options of gsub. Raises BadRequest for a command that is none, and as submissions do."""
    if not command:
        raise BadRequest(f"{program(call)}: no command is given")
    asked = read_words(call, [f"-{kind}", *words, *command], lambda: b"")
    job = session.client.submit(submission_of(call, asked), token=new_token())
    for text in job.warnings:
        call.error(f"Warning: {sentence(text)}\n")
    return RemoteTask(call, session, job.job_id, kind, has_input=True, said=said)
