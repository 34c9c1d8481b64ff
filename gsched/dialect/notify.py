"""Whom a job's user wants to hear of it: the values of --notify, and the user's own file, ~/.gsched/notify.

    gsub --notify https://hooks.example.org/T0/B0/XXXX,fail     TARGET[,EVENT...]; also in #BSUB lines and of gmod
    gsub --notify none                                          nothing of what the file says of all jobs

    # ~/.gsched/notify: a line without a name is for all jobs of the user, one with a name for --notify NAME
    webhook https://hooks.example.org/T0/B0/XXXX events=fail,warning
    mail events=end
    pager: command "/home/ann/bin/page --loud" events=fail,elements

What is wrong is told with file and line, and never with what may be a secret. Nothing here opens a file.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import msgspec

from gsched.base.errors import BadRequest
from gsched.dialect.options import told_of
from gsched.model.jobs.job import JobSpec
from gsched.model.jobs.notice import COMMAND, END, EVENTS, FAIL, MAIL, START, WARNING, WAYS, WEBHOOK, NoticeWish
from gsched.model.jobs.notice_targets import FORMS, LONGEST_TARGET, MOST_TARGETS, NoticeTarget, packed_targets

FILE = ".gsched/notify"
"""Below the user's home."""
VARIABLE = "GSCHED_NOTIFY_FILE"
"""Names another file in its place; empty: none."""
MOST_BYTES = 64 * 1024
DEFAULT_EVENTS = (END, WARNING)
NONE, ALL, ELEMENTS = "none", "all", "elements"
_NAMED = re.compile(r"(?P<name>[A-Za-z][A-Za-z0-9_.-]*):\s+(?P<rest>.*)", re.ASCII | re.DOTALL)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://", re.ASCII)
_SLACK = ("hooks.slack.com", "hooks.slack-gov.com")
"""Where Slack's form is the one that is wanted."""
_KEY = re.compile(r"[A-Za-z_]+", re.ASCII)
_ADDRESS = re.compile(r"[^\s,@/|:<>()\[\];\"'`$\\-][^\s,@/|<>()\[\];\"'`$\\]*(@[^\s,@/|<>();\"'`$\\]+)?")


@dataclass(frozen=True, slots=True)
class NotifyFile:
    """The user's file as it was read. `mode`: its permissions, None where nobody has looked."""

    path: str
    data: bytes
    mode: int | None = None


@dataclass(frozen=True, slots=True)
class _Line:
    name: str
    wish: NoticeWish
    target: NoticeTarget


Notices = tuple[tuple[NoticeWish, ...], tuple[NoticeTarget, ...]]
ReadNotifyFile = Callable[[], NotifyFile | None]
"""The caller's file; None where there is none. Raises BadRequest where it cannot be read."""


def path_of(environment: Mapping[str, str], home: str) -> str:
    """Path of the user's file; empty: none is to be read."""
    return environment.get(VARIABLE, os.path.join(home, FILE))


def is_missing(error: OSError, environment: Mapping[str, str]) -> bool:
    """Whether the error says that there is no such file, and none was named."""
    return VARIABLE not in environment and isinstance(error, FileNotFoundError | NotADirectoryError)


def no_notify_file() -> NotifyFile | None:
    """There is none."""
    return None


def notices_of(asked: Iterable[tuple[str, int]], read_file: ReadNotifyFile, cwd: str, home: str) -> Notices:
    """The wishes and targets of a job. `asked`: values of --notify, each with its line in the script (0: none).

    Raises BadRequest.
    """
    file = read_file()
    lines = _lines(file, home) if file is not None else []
    given = list(asked)
    chosen = [] if any(value.strip() == NONE for value, _ in given) else [line for line in lines if not line.name]
    for value, number in given:
        if value.strip() == NONE:
            continue
        with told_of(number):
            chosen.append(_asked(value, {line.name: line for line in lines if line.name}, cwd, home))
    chosen = list(dict.fromkeys(chosen))
    if len(chosen) > MOST_TARGETS:
        raise BadRequest(f"--notify: {len(chosen)} targets are too many, {MOST_TARGETS} are the most")
    return tuple(line.wish for line in chosen), tuple(line.target for line in chosen)


def notices_of_options(asked: Iterable[tuple[str, int]], read_file: ReadNotifyFile, cwd: str, home: str) -> Notices:
    """The same of gmod, where the file says something only of the names that --notify has."""
    given = [(value, line) for value, line in asked if value.strip() != NONE]
    return notices_of([*given, (NONE, 0)], read_file if given else no_notify_file, cwd, home)


_OF_EACH = ("notify_begin", "notify_end", "notify_error")
"""Fields that ask for mail of each element of an array, as LSF sends it."""


def mailed_as_whole(spec: JobSpec, over: Collection[str]) -> tuple[JobSpec, bytes]:
    """The spec, and its notices' packed targets: of an array there is one mail of its start and one of its end, as
    Slurm and PBS send it, unless the mail is among the fields that another command says `over` the script.
    """
    told = (START, spec.notify_begin), (END, spec.notify_end), (FAIL, spec.notify_error)
    events = tuple(event for event, is_told in told if is_told)
    if not spec.indices or not events or not set(_OF_EACH).isdisjoint(over):
        return spec, b""
    wish, target = NoticeWish(way=MAIL, events=events), NoticeTarget(way=MAIL, to=spec.mail_user)
    spec = msgspec.structs.replace(spec, notices=(wish,), **dict.fromkeys(_OF_EACH, False))
    return spec, packed_targets((target,))


def _asked(value: str, named: Mapping[str, _Line], cwd: str, home: str) -> _Line:
    """One value of --notify: a target or a name of the file, and events behind commas."""
    words = value.split(",")
    events: list[str] = []
    while len(words) > 1 and words[-1].strip() in (*EVENTS, ALL, ELEMENTS):
        events.insert(0, words.pop().strip())
    text = ",".join(words).strip()
    if "," in text:
        hint = " (in a URL, a comma is written %2C)" if _is_url(text) else ""
        raise BadRequest(f"--notify: what follows its commas are events, of {_known_events()}{hint}")
    if not text:
        raise BadRequest("--notify needs a URL, a program, mail, or a name of your file of notices")
    try:
        return _typed(text, events, named, cwd, home)
    except BadRequest as error:
        raise BadRequest(f"--notify: {error.text}") from None


def _typed(text: str, events: list[str], named: Mapping[str, _Line], cwd: str, home: str) -> _Line:
    how = _events(events) if events else (DEFAULT_EVENTS, False)
    if _is_url(text):
        return _line("", WEBHOOK, text, *how, home=home)
    if text == MAIL or text.startswith(f"{MAIL}:") or ("@" in text and "/" not in text):
        return _line("", MAIL, text.removeprefix(MAIL).removeprefix(":") if text.startswith(MAIL) else text, *how)
    if "/" in text.split()[0]:
        return _line("", COMMAND, text, *how, home=home, cwd=cwd)
    line = named.get(text)
    if line is None:
        known = f"it names {', '.join(sorted(named))}" if named else "it names nothing"
        hint = "a program is given by its path, a webhook by its URL"
        raise BadRequest(f"'{text[:40]}' is not named in ~/{FILE} ({known}); {hint}")
    if not events:
        return line
    wish = NoticeWish(way=line.wish.way, events=how[0], each_element=how[1])
    return _Line("", wish, line.target)


def _is_url(text: str) -> bool:
    return _SCHEME.match(text) is not None


def _known_events() -> str:
    return f"{', '.join(EVENTS)} and {ALL}"


def _events(words: Iterable[str]) -> tuple[tuple[str, ...], bool]:
    """The events, in their order, and whether each element of an array is meant. Raises BadRequest."""
    names = [word.strip() for word in words]
    for name in names:
        if name not in (*EVENTS, ALL, ELEMENTS):
            raise BadRequest(f"'{name[:40]}' is none of the events {_known_events()}")
    wanted = EVENTS if ALL in names else tuple(event for event in EVENTS if event in names)
    return wanted or DEFAULT_EVENTS, ELEMENTS in names


def _line(
    name: str,
    way: str,
    to: str,
    events: tuple[str, ...],
    each_element: bool,
    *,
    home: str = "/",
    cwd: str = "",
    form: str = "",
) -> _Line:
    """A checked target. Raises BadRequest."""
    if len(to) > LONGEST_TARGET:
        raise BadRequest(f"a target has at most {LONGEST_TARGET} characters")
    if form and way != WEBHOOK:
        raise BadRequest("form= is for webhooks")
    if way == WEBHOOK:
        host = _checked_url(to)
        form = form or ("slack" if host in _SLACK else "json")
    elif way == COMMAND:
        to = _checked_command(to, home, cwd)
    elif to and not _ADDRESS.fullmatch(to):
        raise BadRequest(f"'{to[:60]}' is not an address for mail")
    wish = NoticeWish(way=way, events=events, each_element=each_element)
    return _Line(name, wish, NoticeTarget(way=way, to=to, form=form or "json"))


def _checked_url(url: str) -> str:
    """The URL's host. Raises BadRequest, without the URL: it may be a secret."""
    if not url.isascii() or any(character <= " " or character in '"<>\\^`{|}\x7f' for character in url):
        raise BadRequest("a URL is ASCII without blanks: write other characters as %XX")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise BadRequest("this is not a URL") from None
    if parts.scheme.lower() not in ("http", "https"):
        raise BadRequest(f"'{parts.scheme[:20]}' is not a scheme for a webhook: https or http")
    if not host:
        raise BadRequest("the URL names no host")
    if parts.username is not None:
        raise BadRequest("a URL with a user and a password is not supported")
    if parts.fragment:
        raise BadRequest("a URL with a # is not supported: what follows is not sent")
    return host.lower()


def _checked_command(text: str, home: str, cwd: str) -> str:
    """The command line with the path of its program made absolute. Raises BadRequest."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise BadRequest(f"the command cannot be read: {str(error).lower()}") from None
    if not words:
        raise BadRequest("there is no command")
    if words[0].startswith("~/"):
        words[0] = os.path.join(home, words[0][2:])
    elif cwd and "/" in words[0]:
        words[0] = os.path.normpath(os.path.join(cwd, words[0]))
    if not words[0].startswith("/"):
        raise BadRequest(f"'{words[0][:60]}' is not the path of a program from / or ~/ on")
    return shlex.join(words)


# -- the file ---------------------------------------------------------------------------------------------------------


def _lines(file: NotifyFile, home: str) -> list[_Line]:
    """The file's lines. Raises BadRequest with file and line."""
    if len(file.data) > MOST_BYTES:
        raise BadRequest(f"{file.path}: {len(file.data)} bytes are too many, {MOST_BYTES} are the most")
    if file.mode is not None and file.mode & 0o022:
        raise BadRequest(f"{file.path}: others can change it (mode {file.mode:03o}): chmod 600 {file.path}")
    found: list[_Line] = []
    names: set[str] = set()
    for number, raw in enumerate(file.data.split(b"\n"), start=1):
        try:
            text = raw.removesuffix(b"\r").decode("utf-8")
            words = shlex.split(text, comments=True)
            if words:
                found.append(_file_line(text, home))
        except UnicodeDecodeError:
            raise BadRequest(f"{file.path}:{number}: the line is not UTF-8") from None
        except (BadRequest, ValueError) as error:
            raise BadRequest(f"{file.path}:{number}: {getattr(error, 'text', None) or str(error).lower()}") from None
        if words and found[-1].name:
            if found[-1].name in names:
                raise BadRequest(f"{file.path}:{number}: '{found[-1].name}' is named twice")
            names.add(found[-1].name)
    if file.mode is not None and file.mode & 0o044 and any(line.wish.way == WEBHOOK for line in found):
        why = "and the URL of a webhook is a secret"
        raise BadRequest(f"{file.path}: others can read it (mode {file.mode:03o}), {why}: chmod 600 {file.path}")
    return found


def _file_line(text: str, home: str) -> _Line:
    """`[NAME:] WAY [TARGET] [events=…] [form=…]`. Raises BadRequest, and ValueError for an open quote."""
    named = _NAMED.fullmatch(text.strip())
    name, rest = (named["name"], named["rest"]) if named else ("", text)
    if name in (*WAYS, NONE, ALL):
        raise BadRequest(f"'{name}' has a meaning of its own and cannot be a name")
    way, *words = shlex.split(rest, comments=True) or [""]
    if way not in WAYS:
        raise BadRequest(f"'{way[:40]}' is none of {', '.join(WAYS)}")
    options: dict[str, str] = {}
    targets: list[str] = []
    for word in words:
        key, equals, value = word.partition("=")
        if equals and _KEY.fullmatch(key):
            if key not in ("events", "form"):
                raise BadRequest(f"{key[:20]}= is none of events= and form=")
            if key in options:
                raise BadRequest(f"{key}= stands twice")
            options[key] = value
        else:
            targets.append(word)
    if len(targets) > 1:
        told = "a command of several words stands in quotes" if way == COMMAND else "only one target, events= and form="
        raise BadRequest(f"{way}: {told}")
    if not targets and way != MAIL:
        raise BadRequest(f"{way} needs {'a URL' if way == WEBHOOK else 'the path of a program'}")
    if options.get("form", "json") not in FORMS:
        raise BadRequest(f"form={options['form'][:20]} is none of {', '.join(FORMS)}")
    events = _events(options["events"].split(",")) if "events" in options else (DEFAULT_EVENTS, False)
    return _line(name, way, "".join(targets), *events, home=home, form=options.get("form", ""))
