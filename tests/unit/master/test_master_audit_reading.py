"""The end of the audit log as administrators get it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gsched.base.errors import Unavailable
from gsched.master.access import audit_reading
from gsched.master.access.audit_reading import last_lines


def test_the_last_lines_that_hold_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "audit.log"
    assert last_lines(str(log)) == []
    log.write_text("".join(f"line {number} of {'ann' if number % 2 else 'bob'}\n" for number in range(100)))
    assert last_lines(str(log))[-1] == "line 99 of ann" and len(last_lines(str(log), "ann")) == 50
    monkeypatch.setattr(audit_reading, "MOST_LINES", 3)
    assert last_lines(str(log), "bob") == [f"line {number} of bob" for number in (94, 96, 98)]
    monkeypatch.setattr(audit_reading, "MOST_BYTES", 40)
    assert last_lines(str(log)) == ["line 98 of bob", "line 99 of ann"], "no half line"


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "other")
    (tmp_path / "other").write_text("hush\n")
    for path in ("link", "."):
        with pytest.raises(Unavailable):
            last_lines(str(tmp_path / path))
