"""--notify and ~/.gsched/notify: what is read of them, and that whatever is wrong has one line, with file and line."""

from __future__ import annotations

from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.base.errors import BadRequest
from gsched.dialect.bmod import read_modification
from gsched.dialect.bsub import ParsedSubmission, read_submission
from gsched.dialect.notify import MOST_BYTES, NotifyFile, notices_of
from gsched.dialect.spec_values import ValueContext
from gsched.model.jobs.notice import NoticeWish
from gsched.model.jobs.notice_targets import NoticeTarget, read_targets

URL = "https://hooks.example.org/T0/S3CR3T?a=b"
PATH = "/home/ann/.gsched/notify"


def around(text: str | None = None, mode: int | None = 0o600) -> ValueContext:
    file = None if text is None else NotifyFile(PATH, text.encode(), mode)
    return ValueContext(cwd="/work", now=0.0, zone=UTC, home="/home/ann", notify_file=lambda: file)


def submission(*words: str, file: str | None = None, mode: int | None = 0o600, script: str = "") -> ParsedSubmission:
    return read_submission(
        words,
        read_stdin=lambda: script.encode(),
        read_file=lambda path: b"",
        env={},
        around=around(file, mode),
    )


def read(
    *values: str, file: str | None = None, mode: int | None = 0o600
) -> tuple[tuple[NoticeWish, NoticeTarget], ...]:
    words = [word for value in values for word in ("--notify", value)]
    asked = submission(*words, "true", file=file, mode=mode)
    targets = read_targets(asked.notice_targets)
    assert len(targets) == len(asked.spec.notices)
    return tuple(zip(asked.spec.notices, targets, strict=True))


def one(value: str, **more: str) -> tuple[str, tuple[str, ...], str, str]:
    ((wish, target),) = read(value, **more)
    assert wish.way == target.way
    return wish.way, wish.events, target.to, target.form


def refusal(*values: str, **more: object) -> str:
    with pytest.raises(BadRequest) as error:
        read(*values, **more)
    text = error.value.text
    assert text.endswith(". Job not submitted.") and "\n" not in text and "S3CR3T" not in text
    return text.removesuffix(". Job not submitted.")


def test_without_a_word_nobody_is_told() -> None:
    assert read() == () and submission("true").notice_targets == b""


@pytest.mark.parametrize(
    ("value", "way", "to", "form"),
    [
        (URL, "webhook", URL, "json"),
        ("http://[::1]:8080/x", "webhook", "http://[::1]:8080/x", "json"),
        ("HTTPS://hooks.slack.com/services/T/B/X", "webhook", "HTTPS://hooks.slack.com/services/T/B/X", "slack"),
        ("mail", "mail", "", "json"),
        ("mail:ann@site.org", "mail", "ann@site.org", "json"),
        ("mail:ann", "mail", "ann", "json"),
        ("ann.lee+gpu@site.org", "mail", "ann.lee+gpu@site.org", "json"),
        ("/opt/page --loud 'a b'", "command", "/opt/page --loud 'a b'", "json"),
        ("~/bin/page", "command", "/home/ann/bin/page", "json"),
        ("./page x", "command", "/work/page x", "json"),
        ("../bin/page", "command", "/bin/page", "json"),
    ],
)
def test_a_target_says_by_its_form_what_it_is(value: str, way: str, to: str, form: str) -> None:
    assert one(value) == (way, ("end", "warning"), to, form)


@pytest.mark.parametrize(
    ("behind", "events", "each"),
    [
        (",fail", ("fail",), False),
        (",warning,start", ("start", "warning"), False),
        (", start , end", ("start", "end"), False),
        (",all", ("start", "end", "fail", "warning"), False),
        (",elements", ("end", "warning"), True),
        (",fail,elements", ("fail",), True),
    ],
)
def test_events_stand_behind_commas(behind: str, events: tuple[str, ...], each: bool) -> None:
    for target in (URL, "mail", "/opt/page --loud"):
        ((wish, _),) = read(target + behind)
        assert (wish.events, wish.each_element) == (events, each)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("mail,fial", "what follows its commas are events, of start, end, fail, warning and all"),
        (f"{URL},x,end", "(in a URL, a comma is written %2C)"),
        (",end", "--notify needs a URL, a program, mail, or a name of your file of notices"),
        ("pager", "'pager' is not named in ~/.gsched/notify (it names nothing)"),
        ("ftp://host/S3CR3T", "'ftp' is not a scheme for a webhook: https or http"),
        ("file:///etc/S3CR3T", "'file' is not a scheme for a webhook"),
        ("https:///S3CR3T", "the URL names no host"),
        ("https://host:99999/S3CR3T", "this is not a URL"),
        ("https://ann:S3CR3T@host/", "a URL with a user and a password is not supported"),
        ("https://host/a b", "a URL is ASCII without blanks"),
        ("https://höst/", "a URL is ASCII without blanks"),
        ("https://host/\r\nX: S3CR3T", "a URL is ASCII without blanks"),
        ("https://host/x#S3CR3T", "a URL with a # is not supported"),
        ("https://host/" + "x" * 3000, "a target has at most 2048 characters"),
        ("mail:-oQ/tmp", "'-oQ/tmp' is not an address for mail"),
        ("mail:|sh", "'|sh' is not an address for mail"),
        ("/opt/page 'open", "the command cannot be read: no closing quotation"),
    ],
)
def test_what_is_wrong_with_a_target_is_said_without_it(value: str, text: str) -> None:
    assert text in refusal(value)


def test_a_name_that_is_not_utf8_is_refused_as_everywhere() -> None:
    with pytest.raises(BadRequest, match="the value of --notify is not UTF-8"):
        submission("--notify", "https://h/\udcff", "true")


def test_several_targets_add_up_and_the_same_counts_once() -> None:
    assert [wish.way for wish, _ in read("mail", URL, "mail", "mail,fail")] == ["mail", "webhook", "mail"]
    assert "9 targets are too many, 8 are the most" in refusal(*(f"mail:a{number}" for number in range(9)))


def test_a_script_says_it_and_the_command_line_says_otherwise() -> None:
    script = "#BSUB --notify mail,fail\n#BSUB --notify /opt/page\ntrue\n"
    assert [wish.way for wish in submission(script=script).spec.notices] == ["mail", "command"]
    assert [wish.way for wish in submission("--notify", URL, script=script).spec.notices] == ["webhook"]
    with pytest.raises(BadRequest, match=r"line 2 of the script: --notify: 'pager' is not named"):
        submission(script="#!/bin/sh\n#BSUB --notify pager\ntrue\n")


FILE = f"""\
# my notices

webhook {URL} events=fail,warning   # where I look
mail events=end
pager:  command "~/bin/page --loud" events=fail,elements
chat:   webhook https://hooks.slack.com/services/T/B/S3CR3T
plain:  webhook https://hooks.slack.com/services/T/B/S3CR3T form=json
list:   mail team@site.org
"""


def test_lines_without_a_name_are_for_all_jobs() -> None:
    assert [(wish.way, wish.events, target.to) for wish, target in read(file=FILE)] == [
        ("webhook", ("fail", "warning"), URL),
        ("mail", ("end",), ""),
    ]


def test_names_are_asked_for() -> None:
    assert read("none", file=FILE) == ()
    (_, _, (wish, target)) = read("pager", file=FILE)
    assert (wish.events, wish.each_element, target.to) == (("fail",), True, "/home/ann/bin/page --loud")
    (_, _, (wish, target)) = read("chat,start", file=FILE)
    assert (wish.events, target.form) == (("start",), "slack")
    assert read("plain", "none", file=FILE)[0][1].form == "json"
    assert [target.to for _, target in read("none", "list", file=FILE)] == ["team@site.org"]
    assert "'pagr' is not named in ~/.gsched/notify (it names chat, list, pager, plain)" in refusal("pagr", file=FILE)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("smoke x", "'smoke' is none of webhook, command, mail"),
        ("webhook", "webhook needs a URL"),
        ("command", "command needs the path of a program"),
        ("webhook ftp://h/S3CR3T", "'ftp' is not a scheme for a webhook"),
        ("webhook https://h/S3CR3T https://i/S3CR3T", "webhook: only one target, events= and form="),
        ("command /opt/page --loud", "command: a command of several words stands in quotes"),
        ("command page", "'page' is not the path of a program from / or ~/ on"),
        ("command ./page", "'./page' is not the path of a program from / or ~/ on"),
        ("mail ann,bob", "'ann,bob' is not an address for mail"),
        ("mail events=end,fial", "'fial' is none of the events start, end, fail, warning and all"),
        ("mail events=", "'' is none of the events"),
        ("mail events=end events=fail", "events= stands twice"),
        ("mail form=slack", "form= is for webhooks"),
        ("webhook https://h/S3CR3T form=xml", "form=xml is none of json, slack"),
        ("mail when=end", "when= is none of events= and form="),
        ("none: mail", "'none' has a meaning of its own and cannot be a name"),
        ("mail: mail", "'mail' has a meaning of its own and cannot be a name"),
        ('mail "open', "no closing quotation"),
    ],
)
def test_what_is_wrong_in_the_file_is_told_with_its_line(line: str, text: str) -> None:
    assert refusal(file=f"mail\n{line}\n").startswith(f"{PATH}:2: {text}")


def test_a_name_stands_once() -> None:
    assert refusal(file="a: mail\n\na: mail x\n") == f"{PATH}:3: 'a' is named twice"


def test_bytes_that_are_no_text() -> None:
    file = NotifyFile(PATH, b"mail\n# \xff\n", 0o600)
    with pytest.raises(BadRequest, match=f"^{PATH}:2: the line is not UTF-8$"):
        notices_of([], lambda: file, "/", "/")
    long = NotifyFile(PATH, b"#" * (MOST_BYTES + 1), 0o600)
    with pytest.raises(BadRequest, match="are too many"):
        notices_of([], lambda: long, "/", "/")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_file_with_a_secret_is_for_its_owner_alone(mode: int) -> None:
    text = refusal(file=FILE, mode=mode)
    assert f"others can read it (mode {mode:03o})" in text and f"chmod 600 {PATH}" in text
    assert len(read(file="mail\n", mode=mode)) == 1


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_change_is_not_followed(mode: int) -> None:
    assert f"others can change it (mode {mode:03o})" in refusal(file="mail\n", mode=mode)


def test_where_nobody_tells_its_mode_it_is_taken_as_it_is() -> None:
    assert len(read(file=FILE, mode=None)) == 2


@given(st.text(max_size=60))
def test_any_value_is_read_or_refused_with_a_line(value: str) -> None:
    try:
        notices_of([(value, 0)], lambda: NotifyFile(PATH, FILE.encode(), 0o600), "/work", "/home/ann")
    except BadRequest as error:
        assert error.text


@given(st.binary(max_size=80))
def test_any_file_is_read_or_refused_with_a_line(data: bytes) -> None:
    try:
        notices_of([], lambda: NotifyFile(PATH, data, 0o600), "/work", "/home/ann")
    except BadRequest as error:
        assert error.text.startswith(PATH)


def test_gmod_replaces_them_all() -> None:
    changed = read_modification(["--notify", "pager", "--notify", "mail,fail", "17"], around(FILE))
    assert [wish.way for wish in changed.values["notices"]] == ["command", "mail"]
    assert [target.to for target in read_targets(changed.notice_targets)] == ["/home/ann/bin/page --loud", ""]
    taken_back = read_modification(["--notify", "none", "17"], around(FILE))
    assert taken_back.values == {"notices": ()} and taken_back.notice_targets == b""
    with pytest.raises(BadRequest, match=r"^--notify: 'x' is not named .* Job not modified\.$"):
        read_modification(["--notify", "x", "17"], around())


def test_lsf_s_own_option_is_refused_by_name() -> None:
    with pytest.raises(BadRequest, match="-notify is not supported: --notify TARGET,EVENT"):
        submission("-notify", "exit", "true")
