"""`gsub -pack FILE`: many submissions in few calls, each line of the file one of them.

Nothing is submitted while a line cannot be read, unless LSB_PACK_SKIP_ERROR=Y; a line that the master refuses ends
the rest likewise. Source: bsub(1), option -pack; lsf.conf(5), LSB_PACK_SKIP_ERROR.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gsched.base.errors import (
    LSF_FAILURE,
    BadRequest,
    Conflict,
    GschedError,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
)
from gsched.base.ids import new_token
from gsched.cli.session.call import Call
from gsched.cli.session.session import Session, setting
from gsched.dialect.bsub import rejected
from gsched.model.views.view import Submission, Submitted

JOBS_PER_CALL = 500
BYTES_PER_CALL = 8 << 20
BAR = 30
"""Characters of the progress bar."""
SKIP = "LSB_PACK_SKIP_ERROR"

ReadSubmission = Callable[[str], Submission]
Announce = Callable[[Submitted, Submission], None]


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    submission: Submission

    @property
    def size(self) -> int:
        return len(self.submission.environment) + len(self.submission.script) + len(self.submission.spec.command)


def submit_pack(call: Call, session: Session, path: str, read: ReadSubmission, announce: Announce) -> int:
    """Submit the lines of the file; the exit code. Raises BadRequest for a file that cannot be read."""
    pack = _Pack(call, session, path, announce)
    return pack.run(pack.lines(read))


class _Pack:
    """One file on its way."""

    def __init__(self, call: Call, session: Session, path: str, announce: Announce) -> None:
        self._call, self._session, self._path, self._announce = call, session, path, announce
        self._skips = setting(call, SKIP).strip().upper() == "Y"
        self._parsed = self._errors = self._done = 0
        self._bar = ""

    def lines(self, read: ReadSubmission) -> list[_Line]:
        """The submissions of the file."""
        try:
            text = self._call.read_file(self._path).decode("utf-8", "surrogateescape")
        except OSError as error:
            raise BadRequest(rejected(f"-pack: {self._path} cannot be read: {error.strerror}")) from None
        found: list[_Line] = []
        for number, line in enumerate(text.split("\n"), start=1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            self._parsed += 1
            try:
                found.append(_Line(number, read(line.removesuffix("\r"))))
            except BadRequest as error:
                self._fail(number, error)
        if not self._parsed:
            raise BadRequest(rejected(f"-pack: {self._path} holds no submission"))
        return found

    def run(self, lines: list[_Line]) -> int:
        """Submit what could be read."""
        if not self._errors or self._skips:
            for part in _parts(lines):
                if not self._submit(part):
                    break
                self._show(len(lines))
        self._clear()
        self._call.write(
            f"{self._parsed} lines parsed, {self._done} jobs submitted, {self._errors} errors found.\n",
        )
        return LSF_FAILURE if self._errors else 0

    def _submit(self, part: list[_Line]) -> bool:
        """Whether to go on. All of the part in one step; when one is refused, one after the other up to that one."""
        if self._send(part, is_last_word=len(part) == 1):
            return True
        if len(part) == 1:
            return self._skips
        return all(self._send([line], is_last_word=True) or self._skips for line in part)

    def _send(self, part: list[_Line], *, is_last_word: bool) -> bool:
        try:
            # The same lines have the same token when the door breaks off and the caller asks again.
            token = f"{self._call.token}.{part[0].number}.{len(part)}" if self._call.token else new_token()
            jobs = self._session.client.submit_many([line.submission for line in part], token=token)
        except (BadRequest, Conflict, NotFound, PermissionDenied, ResourceExhausted) as error:
            if is_last_word:
                self._fail(part[0].number, type(error)(rejected(error.text)))
            return False
        self._done += len(jobs)
        self._clear()
        for line, job in zip(part, jobs, strict=True):
            self._announce(job, line.submission)
        self._call.flush()
        return True

    def _fail(self, number: int, error: GschedError) -> None:
        self._errors += 1
        self._clear()
        self._call.error(f"{self._path}, line {number}: {error.text}\n")

    def _show(self, total: int) -> None:
        """A bar for a person; a pipe has the lines about the jobs."""
        if not self._call.stderr_is_tty or total <= JOBS_PER_CALL:
            return
        filled = BAR * self._done // total
        self._bar = f"[{'#' * filled}{'.' * (BAR - filled)}] {self._done}/{total} jobs"
        self._call.error(self._bar)
        if self._done == total:
            self._clear()

    def _clear(self) -> None:
        """Take the bar away: what comes next begins in the first column."""
        if self._bar:
            self._call.error("\r" + " " * len(self._bar) + "\r")
            self._bar = ""


def _parts(lines: list[_Line]) -> Iterator[list[_Line]]:
    part: list[_Line] = []
    size = 0
    for line in lines:
        if part and (len(part) >= JOBS_PER_CALL or size + line.size > BYTES_PER_CALL):
            yield part
            part, size = [], 0
        part.append(line)
        size += line.size
    if part:
        yield part
