"""What the three kinds of processes say to each other: the front and the keeper a line of JSON each, and the words that
a user's process is started with.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

MOST_BYTES = 64 * 1024
"""Of a line; it has a password at most."""
LONGEST_PASSWORD = 4096
READY = "ready"
"""What a user's process says, a line, once it listens; anything else is why it does not."""
CSRF_HEADER = "gsched-csrf"
"""By which the front tells a user's process the token of the session's forms."""
PAM_SAYS_YES, PAM_SAYS_NO, PAM_IS_UNSURE = 0, 1, 2
"""Exit codes of a process that asks PAM; any other one is that of one that has failed."""
ALIAS_HEADER = "gsched-service-alias"
"""By which it tells what the token or the cookie of a service that is being opened is to begin with."""
SERVICE_COOKIE = "__Host-gsched_service"
"""Of a service's name; its value begins with an alias of the session that has opened it."""
OWN_HEADERS = b"gsched-"
"""No header that begins so is passed on from a browser."""


class KeeperTask(StrEnum):
    """What the keeper can be asked for."""

    READY = "ready"
    """The front listens now."""
    PROVE = "prove"
    """Is this the user's password? The user is let in then."""
    PROCESS = "process"
    """Where the process of a user who has been let in listens; it is started unless it runs. The user is put out who
    may have none any more.
    """
    END = "end"
    """The user has no session any more."""
    CERTIFICATE = "certificate"
    """Is there a new certificate with its key?"""


class KeeperQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """`number` stands in the answer; `address`: where the browser is. The password is in no representation."""

    number: int
    task: KeeperTask
    user: str = ""
    password: str = ""
    address: str = ""

    def __repr__(self) -> str:
        return f"KeeperQuestion({self.number}, {self.task}, {self.user!r})"


class KeeperAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`why` is empty when it was done."""

    number: int
    user: str = ""
    """The user as the host writes the name."""
    path: str = ""
    why: str = ""
    is_for_now: bool = False
    """It may be done when it is asked for again."""
    certificate: str = ""
    key: str = ""
    """Of the port, in PEM; empty: as before."""

    def __repr__(self) -> str:
        return f"KeeperAnswer({self.number}, {self.user!r}, {self.path!r}, {self.why!r})"


def line_of(message: KeeperQuestion | KeeperAnswer) -> bytes:
    """As it travels."""
    return msgspec.json.encode(message) + b"\n"


class UserProcessWords(msgspec.Struct, frozen=True, kw_only=True):
    """What a user's process is told at its start; `listening` and `line` are descriptors."""

    conf_dir: str
    listening: int
    line: int
    names: tuple[str, ...]
    """What browsers call the front."""
    scheme: str
    is_read_only: bool
    may_leave: bool
    service_domains: tuple[str, ...] = ()
    """Below which jobs' services have names; empty: they are not reached."""
