"""A call of scontrol: its options, the words behind its command, and the jobs that they name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gsched.base.errors import BadRequest, NotFound
from gsched.base.ids import array_of, element_id
from gsched.base.node_lists import list_parts
from gsched.cli.render.text.text_columns import printable
from gsched.cli.session.call import Call
from gsched.cli.session.session import Session
from gsched.cli.slurm.slurm_call import elements_of
from gsched.dialect.slurm.gnu_options import GnuWords
from gsched.dialect.slurm.slurm_values import parse_job
from gsched.model.views.view import JobFilter, JobView

_OF_NAMES = ("hostnames", "hostlist", "hostlistsorted")
_KEYWORD = re.compile(r"(QOS|TRES|MCS_label|[A-Z][A-Za-z]*[a-z][A-Za-z:/]*)=", re.ASCII)
"""As records have them; variables such as LR=3 are none."""
UNKNOWN = "Invalid job id specified"


@dataclass(frozen=True, slots=True)
class ScontrolCall:
    """`words`: what stands behind the command."""

    call: Call
    options: GnuWords
    words: tuple[str, ...]
    connection: Session | None = None

    @property
    def session(self) -> Session:
        """The master that is asked."""
        assert self.connection is not None
        return self.connection

    @property
    def is_of_names(self) -> bool:
        """Whether it is answered from names alone."""
        word = self.words[0].lower() if self.words else ""
        return len(word) > 4 and any(each.startswith(word) for each in _OF_NAMES)

    def with_words(self, words: tuple[str, ...]) -> ScontrolCall:
        """The same, further in."""
        return replace(self, words=words)

    def with_session(self, session: Session) -> ScontrolCall:
        """The same, connected."""
        return replace(self, connection=session)

    def jobs(self, number: int, indices: str | None) -> list[JobView]:
        """The job, all elements of the array, or those with the indices. Raises NotFound."""
        found = list(self.session.client.jobs(JobFilter(ids=(number,), user="all", finished=True)))
        if indices is not None:
            meant = {element_id(number, index) for index in elements_of(self.session, number, indices)}
            found = [job for job in found if job.job_id in meant]
        else:
            found = [job for job in found if number in (job.job_id, array_of(job.job_id))]
        if not found:
            raise NotFound(UNKNOWN)
        return found


def job_words(words: Iterable[str]) -> list[str]:
    """The jobs of lists such as `12,13_[1-3] 14`, one by one. Raises BadRequest."""
    found = [part.strip() for word in words for part in list_parts(word)]
    if not found:
        raise BadRequest("too few arguments: name a job")
    for each in found:
        parse_job(each)
    return found


def record(asked: ScontrolCall, lines: Sequence[str]) -> None:
    """Write a record of several lines, with --oneliner as one. What cannot be printed in them is replaced."""
    shown = map(printable, lines)
    asked.call.write(" ".join(shown) + "\n" if asked.options.has("oneliner") else "\n   ".join(shown) + "\n\n")


def free_text(text: str) -> str:
    """A text that users choose, as the value of a record: without what reads as another `KeyWord=` of it."""
    return _KEYWORD.sub(r"\1?", text)
