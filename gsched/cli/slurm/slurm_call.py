"""What Slurm's commands do alike: options, --help and --version, errors in their form, and their exit code 1."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Protocol

from gsched.base.errors import BadRequest, Conflict, GschedError, NotFound, PermissionDenied, ResourceExhausted
from gsched.base.ids import array_of
from gsched.base.indices import parse_indices
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import complain, read_words
from gsched.cli.session.session import Session
from gsched.dialect.slurm.array_lists import MAX_INDEX, shifted
from gsched.dialect.slurm.gnu_options import GivenOption, GnuOptions, GnuWords, general
from gsched.model.views.view import JobFilter

FAILURE = 1
GENERAL = general("")


def fails_as_slurm(command: Callable[[Call], int]) -> Callable[[Call], int]:
    """The command, whose errors are told as `NAME: error: TEXT`, with exit code 1."""

    @wraps(command)
    def main(call: Call) -> int:
        try:
            return command(call)
        except GschedError as problem:
            complain(call, f"error: {problem.text}")
            return FAILURE

    return main


def read_listing(call: Call, table: GnuOptions, *, loose: str = "") -> GnuWords:
    """The same for a command that only lists: with what variables give, and without a word that is no option. `loose`:
    an option whose optional value may also stand behind it.
    """
    given = read_words(call, table)
    option = given.last(loose)
    if option is not None and not option.value and given.rest:
        named = GivenOption(option.name, given.rest[0], option.written)
        given = GnuWords((*given.given, named), given.rest[1:])
    if given.rest:
        raise BadRequest(f"Unrecognized option: {given.rest[0][:60]}")
    return GnuWords((*table.in_environment(call.env).given, *given.given))


def _refused_nodes(session: Session, words: GnuWords, about: Iterable[str]) -> str:
    """What Slurm says where more nodes are asked for than there are; empty where that is not what is wrong."""
    least = words.value("nodes").partition("-")[0]
    if "slots" not in about or not least.isdigit() or len(least) > 9:
        return ""
    return "Node count specification invalid" if int(least) > sum(1 for _ in session.client.hosts()) else ""


class Asked(Protocol):
    """What a command of Slurm submits; it knows which of its options the master speaks of."""

    @property
    def words(self) -> GnuWords: ...
    def refused(self, about: Sequence[str], reason: str) -> str: ...


@contextmanager
def refusals(session: Session, asked: Asked, failure: str) -> Iterator[None]:
    """Say of what the master refuses where it stands, behind the words of the failure."""
    try:
        yield
    except (BadRequest, Conflict, NotFound, PermissionDenied, ResourceExhausted) as problem:
        reason = _refused_nodes(session, asked.words, problem.about) or asked.refused(problem.about, problem.text)
        raise type(problem)(f"{failure}: {reason.rstrip('.')}") from None


def elements_of(session: Session, number: int, indices: str) -> list[int]:
    """Our indices of an array's elements that are named by Slurm's. Raises BadRequest."""
    text, _ = shifted(indices, shift_of(session, number))
    return list(parse_indices(text, MAX_INDEX, most=100_000))


def shift_of(session: Session, number: int) -> int:
    """How far the indices of the array lie from those that Slurm's users name; 0 for one that nobody knows."""
    for job in session.client.jobs(JobFilter(ids=(number,), user="all", finished=True)):
        if array_of(job.job_id) == number:
            return job.spec.index_shift
    return 0
