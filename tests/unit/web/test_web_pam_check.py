"""The process that asks PAM: what it asks for, what it tells PAM of the browser, and how it answers."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from gsched.web.front.keeper_messages import PAM_IS_UNSURE, PAM_SAYS_NO, PAM_SAYS_YES

pam_check = pytest.importorskip("gsched.web.front.pam_check", reason="there is no libpam", exc_type=ImportError)
PAM_AUTHINFO_UNAVAIL, PAM_ACCT_EXPIRED, PAM_AUTH_ERR = 9, 13, 7


class FakePam:
    """In the place of libpam: answers with these numbers."""

    def __init__(self, patch: pytest.MonkeyPatch, *, password: int = 0, account: int = 0) -> None:
        self.asked: list[Any] = []
        pamela = pam_check.pamela
        handle = SimpleNamespace(set_item=lambda what, text: self.asked.append((what, text)))
        patch.setattr(
            pamela, "pam_start", lambda service, user, conv_func: self.asked.append((service, user)) or handle
        )
        patch.setattr(pamela, "PAM_AUTHENTICATE", lambda *_: self.asked.append("password") or password)
        patch.setattr(pamela, "PAM_ACCT_MGMT", lambda *_: self.asked.append("account") or account)
        patch.setattr(pamela, "PAM_END", lambda *_: self.asked.append("end") or 0)


def check(patch: pytest.MonkeyPatch, question: bytes) -> int:
    patch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(question)))
    return int(pam_check.main())


def test_pam_is_told_where_the_user_is_and_asked_for_password_and_account(monkeypatch: pytest.MonkeyPatch) -> None:
    pam = FakePam(monkeypatch)
    assert check(monkeypatch, b"login\0ann\x0010.0.0.5\0hush\0") == PAM_SAYS_YES
    tty, rhost = pam_check.pamela.PAM_TTY, pam_check.pamela.PAM_RHOST
    told = [("login", "ann"), (tty, "gsched-web"), (rhost, "10.0.0.5")]
    assert pam.asked == [*told, "password", "account", "end"]


def test_without_a_password_the_account_alone_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    pam = FakePam(monkeypatch)
    assert check(monkeypatch, b"login\0ann\0\0\0") == PAM_SAYS_YES
    assert pam.asked[2:] == ["account", "end"]


@pytest.mark.parametrize(
    ("password", "account", "code"),
    [
        (PAM_AUTH_ERR, 0, PAM_SAYS_NO),
        (0, PAM_ACCT_EXPIRED, PAM_SAYS_NO),
        (0, PAM_AUTHINFO_UNAVAIL, PAM_IS_UNSURE),
        (PAM_AUTHINFO_UNAVAIL, 0, PAM_IS_UNSURE),
    ],
)
def test_what_pam_says_is_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, password: int, account: int, code: int
) -> None:
    FakePam(monkeypatch, password=password, account=account)
    assert check(monkeypatch, b"login\0ann\0\0hush\0") == code


@pytest.mark.parametrize("question", [b"", b"login\0ann\0hush\0", b"login\0ann\0\0hush", b"a\0b\0c\0d\0e\0"])
def test_what_is_no_question_is_not_asked(monkeypatch: pytest.MonkeyPatch, question: bytes) -> None:
    pam = FakePam(monkeypatch)
    assert check(monkeypatch, question) == PAM_IS_UNSURE and pam.asked == []
