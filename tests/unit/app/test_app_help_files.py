"""What docs/fleet.md promises for every day: each word exists as it stands there, with manual pages and completion."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from test_app_install import PYTHON, put

from gsched.app.commands import restart_words
from gsched.app.commands.groups import gadmin
from gsched.app.installation import help_files, install
from gsched.app.installation.install import InstallPlace
from tests.support.fleet_guide import GUIDE

EVERY_DAY = GUIDE.partition("## Every day\n")[2].partition("\n## ")[0]


def test_every_word_of_every_day_exists_without_other_names() -> None:
    rows = [line for line in EVERY_DAY.splitlines() if line.startswith("| `")]
    commands = [command.split() for row in rows for command in re.findall(r"`([^`]+)`", row)]
    assert len(commands) >= 10
    assert {words[0] for words in commands} == {"gadmin"}
    assert {words[1] for words in commands} <= set(gadmin.words())
    assert {"startup", "shutdown", "versions", "drain", "hopen", "hrestart", "mbdrestart"} <= {
        words[1] for words in commands
    }


@pytest.mark.parametrize("word", ["startup", "shutdown"])
def test_all_daemons_have_a_word_of_gadmin(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They do what lsfstartup and lsfshutdown do, which ask first."""
    asked: list[object] = []
    monkeypatch.setattr("gsched.app.commands.lsf_startup._start", lambda: asked.append("startup"))
    monkeypatch.setattr("gsched.app.commands.lsf_startup._stop", lambda: asked.append("shutdown"))
    done = CliRunner().invoke(gadmin, [word], input="n\n")
    assert done.exit_code != 0 and not asked, done.output
    done = CliRunner().invoke(gadmin, [word, "-f"])
    assert done.exit_code == 0 and asked == [word], done.output
    assert getattr(restart_words, word) is gadmin.words()[word]


def test_pages_and_completion_are_installed_for_everybody(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc").chmod(0o755)  # whatever the umask
    mask = os.umask(0o077)
    try:
        put(tmp_path)
    finally:
        os.umask(mask)
    pages = tmp_path / help_files.manual_folder(PYTHON).lstrip("/") / "man1"
    names = {path.name for path in pages.iterdir()}
    assert {"gsub.1", "bsub.1", "gadmin.1", "gsched.1", "lsfshutdown.1"} <= names
    assert (pages / "gsub.1").read_text().startswith('.TH "GSUB"')
    for path in (pages / "gsub.1", tmp_path / help_files.BASH_COMPLETION, tmp_path / help_files.FISH_COMPLETION):
        assert path.stat().st_mode & 0o777 == 0o644
        for folder in path.parents:
            if folder == tmp_path:
                break
            assert folder.stat().st_mode & 0o055 == 0o055, folder
    conf = tmp_path / "etc/gsched"
    assert conf.stat().st_mode & 0o777 == 0o755
    assert all((conf / name).stat().st_mode & 0o777 == 0o644 for name in ("lsf.conf", "lsb.queues", ".door"))
    install.uninstall(InstallPlace(str(tmp_path), "/etc/gsched", "h1"), force=False, say=lambda _: None, python=PYTHON)
    assert not list(pages.iterdir())
    assert not (tmp_path / help_files.BASH_COMPLETION).exists()


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_the_installed_completion_is_a_script_of_bash(tmp_path: Path) -> None:
    put(tmp_path)
    script = f"source {tmp_path / help_files.BASH_COMPLETION} && complete -p gsub gadmin"
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 2, done.stderr


@pytest.mark.parametrize(
    ("python", "folder"),
    [
        ("/opt/gsched/bin/python", "/opt/gsched/share/man"),
        ("/usr/bin/python3", "/usr/local/share/man"),
        ("/usr/local/bin/python3", "/usr/local/share/man"),
    ],
)
def test_where_man_looks_by_itself(python: str, folder: str) -> None:
    """man(1) goes from each folder of PATH to the share/man beside it."""
    assert help_files.manual_folder(python) == folder
