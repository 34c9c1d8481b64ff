"""`gadmin backup` and `gadmin restore`: configuration and keys are part of a copy, encrypted, or left out by name."""

from __future__ import annotations

import os
import shutil
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from gsched.app.commands import command_options
from gsched.app.commands.groups import gadmin
from gsched.app.stores import configuration_copies
from gsched.app.stores.configuration_copies import KeptConfiguration, KeptFile, kept_configuration
from gsched.app.stores.sealing import seal, unseal
from gsched.base.errors import BadRequest, GschedError
from gsched.config.template import NewConfiguration, private_texts
from gsched.model.config import Locations
from gsched.model.event import ConfigApplied
from gsched.store.eventlog import EventLog
from gsched.store.safeguards import sealed_files

pytestmark = pytest.mark.slow

SECRET = "correct horse battery"


class Site:
    """A shared cluster's configuration, keys elsewhere, and a store with one event."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.tls = folder, folder / "keys"
        names = ("conf_dir", "state_dir", "log_dir", "server_dir", "run_dir", "spool_dir")
        folders = Locations(**{name: str(folder / name) for name in names})
        self.conf, self.state = Path(folders.conf_dir), Path(folders.state_dir)
        for each in (self.conf, self.state, self.tls, self.conf / "hooks"):
            each.mkdir()
        new = NewConfiguration(cluster="c1", hosts=["h1"], slots=1, folders=folders, gpu_provider="none")
        for name, text in private_texts(new).items():
            (self.conf / name).write_text(text)
        with (self.conf / "lsf.conf").open("a") as file:
            file.write(f"LSB_MBD_PORT=6881\nGSCHED_TLSDIR={self.tls}\n")
        (self.conf / "hooks" / "esub").write_text("#!/bin/sh\n")
        (self.conf / "hooks" / "esub").chmod(0o755)
        (self.tls / "h1.key").write_text("PRIVATE KEY")
        (self.tls / "h1.key").chmod(0o640)
        self.store().close()
        self.passphrase = folder / "passphrase"
        self.passphrase.write_text(f"{SECRET}\n")
        self.passphrase.chmod(0o600)
        self.copy = folder / "copy"

    def store(self) -> EventLog:
        log = EventLog(self.state / "gsched.db")
        if not log.last_seq:
            log.append([ConfigApplied(at=1.0, digest="d", by="")])
        return log

    def backup(self, *words: str) -> str:
        return said("backup", "--envdir", str(self.conf), *words, str(self.copy))

    def restore(self, *words: str) -> str:
        return said("restore", "--configuration", "--passphrase-file", str(self.passphrase), *words, str(self.copy))

    def files(self) -> dict[str, tuple[str, int]]:
        paths = [path for root in (self.conf, self.tls) for path in root.rglob("*") if path.is_file()]
        return {str(path): (path.read_text(), path.stat().st_mode & 0o777) for path in paths}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def said(*words: str) -> str:
    done = CliRunner().invoke(gadmin, words)
    if done.exception is not None:
        raise done.exception
    return done.output


def test_configuration_and_keys_go_and_come_back(site: Site) -> None:
    before = site.files()
    lines = site.backup("--passphrase-file", str(site.passphrase)).splitlines()
    assert lines == [
        f"{site.copy}: a copy of the store with its 1 events until now",
        f"{len(before)} files of {site.conf} and {site.tls} are part of it, encrypted",
    ]
    content = site.copy.read_bytes()
    assert b"PRIVATE KEY" not in content and b"lsf.conf" not in content and SECRET.encode() not in content
    for folder in (site.conf, site.tls):
        shutil.rmtree(folder)
    assert site.restore().splitlines()[-1].endswith(f": {len(before)} files written, none was there as it is")
    assert site.files() == before
    with closing(sqlite3.connect(site.copy)) as connection:
        assert connection.execute("select count(*) from event").fetchone() == (1,), "the store is there beside it"


def test_a_passphrase_is_asked_for_and_not_shown(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_options, "has_terminal", lambda: True)
    words = ["--envdir", str(site.conf), "--ask-passphrase", str(site.copy)]
    done = CliRunner().invoke(gadmin, ["backup", *words], input=f"{SECRET}\nanother one\n{SECRET}\n{SECRET}\n")
    assert done.exit_code == 0 and SECRET not in done.output and "do not match" in done.output
    before = site.files()
    (site.conf / "lsb.params").unlink()
    words = ["--configuration", "--ask-passphrase", str(site.copy)]
    assert CliRunner().invoke(gadmin, ["restore", *words], input=f"{SECRET}\n").exit_code == 0
    assert site.files() == before


def test_what_is_there_is_kept_under_another_name(site: Site) -> None:
    site.backup("--passphrase-file", str(site.passphrase))
    before = site.files()
    key = site.tls / "h1.key"
    key.write_text("ANOTHER KEY")
    first, last = site.restore().splitlines()
    kept = Path(first.removeprefix("kept: "))
    assert kept.name.startswith("h1.key.replaced-") and kept.read_text() == "ANOTHER KEY"
    assert last.endswith(f": 1 files written, {len(before) - 1} were there as they are")
    kept.unlink()
    assert site.files() == before


def test_it_can_be_looked_at_elsewhere(site: Site) -> None:
    site.backup("--passphrase-file", str(site.passphrase))
    before = site.files()
    into = site.folder / "elsewhere"
    site.restore("--into", str(into))
    assert site.files() == before
    assert {f"/{path.relative_to(into)}" for path in into.rglob("*") if path.is_file()} == set(before)


def test_without_a_passphrase_it_is_left_out_by_name(site: Site) -> None:
    assert site.backup().splitlines()[1:] == [
        f"left out: configuration and keys, {site.conf} and {site.tls}"
        " (--passphrase-file or --ask-passphrase encrypts them)"
    ]
    with pytest.raises(BadRequest, match="no configuration is part of it: it was made without a passphrase"):
        site.restore()


def test_what_cannot_be_taken_is_left_out_by_name(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration_copies, "MOST_BYTES", 1 << 20)
    (site.conf / "large").write_bytes(bytes((1 << 20) + 1))
    os.mkfifo(site.conf / "pipe")
    (site.conf / "gone").symlink_to(site.folder / "nowhere")
    (site.conf / "linked").symlink_to(site.tls)
    (site.conf / ".master").write_text("unix:/run/x")
    lines = site.backup("--passphrase-file", str(site.passphrase)).splitlines()[2:]
    assert lines == [
        f"left out: {site.conf}/linked: a link to a folder",
        f"left out: {site.conf}/gone: No such file or directory",
        f"left out: {site.conf}/large: larger than 1 MiB",
        f"left out: {site.conf}/pipe: not a file",
    ]
    (site.conf / "lsb.params").unlink()
    site.restore()
    assert (site.conf / "lsb.params").exists()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--passphrase-file", "none"), "the passphrase cannot be read: .*none: No such file"),
        (("--passphrase-file", "open"), "others may read the file with the passphrase: chmod 600"),
        (("--passphrase-file", "short"), "a passphrase has at least 8 characters"),
        (("--passphrase-file", "empty"), "the file with the passphrase is empty"),
        (("--ask-passphrase",), "there is no terminal to ask for the passphrase"),
        (("--ask-passphrase", "--passphrase-file", "short"), "exclude each other"),
    ],
)
def test_a_passphrase_that_cannot_be_used_makes_no_copy(
    site: Site, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], text: str
) -> None:
    monkeypatch.chdir(site.folder)
    for name, content, mode in (("open", SECRET, 0o644), ("short", "1234567", 0o600), ("empty", "", 0o600)):
        (site.folder / name).write_text(content)
        (site.folder / name).chmod(mode)
    with pytest.raises(BadRequest, match=text) as refusal:
        site.backup(*words)
    assert not site.copy.exists() and SECRET not in refusal.value.text


def test_another_passphrase_or_a_damaged_copy_gives_nothing(site: Site) -> None:
    site.backup("--passphrase-file", str(site.passphrase))
    (site.conf / "lsb.params").unlink()
    site.passphrase.write_text("incorrect horse")
    with pytest.raises(BadRequest, match=r"copy: the passphrase is another one, or the file is damaged"):
        site.restore()
    site.passphrase.write_text(SECRET)
    with closing(sqlite3.connect(site.copy)) as connection, connection:
        connection.execute("update sealed_files set data = substr(data, 1, length(data) - 1)")
    with pytest.raises(BadRequest, match=r"copy: the passphrase is another one, or the file is damaged"):
        site.restore()
    assert not (site.conf / "lsb.params").exists()
    for name, text in (("passphrase", "cannot be read: file is not a database"), ("none", "No such file")):
        site.copy = site.folder / name
        with pytest.raises(BadRequest, match=text):
            site.restore()


@pytest.mark.parametrize("words", [("--into", "x"), ("--ask-passphrase",), ("--passphrase-file", "x")])
def test_options_of_the_configuration_alone(site: Site, words: tuple[str, ...]) -> None:
    with pytest.raises(BadRequest, match="are for --configuration"):
        said("restore", *words, str(site.copy))
    with pytest.raises(BadRequest, match="--configuration needs the passphrase"):
        said("restore", "--configuration", str(site.copy))


def test_the_store_that_is_put_back_has_no_part_of_it(site: Site) -> None:
    site.backup("--passphrase-file", str(site.passphrase))
    told = said("restore", "--envdir", str(site.conf), str(site.copy))
    assert "this is generation 2 now" in told
    assert f"configuration and keys are part of {site.copy}: gadmin restore --configuration" in told
    assert sealed_files.read(site.state / "gsched.db") == b"" != sealed_files.read(site.copy)


@pytest.mark.parametrize("path", ["/etc/passwd", "/site/conf/../../etc/passwd", "/site/config", "conf/x"])
def test_a_file_of_another_folder_is_refused(path: str) -> None:
    file = KeptFile(path, 0o600, "", "", b"")
    kept = KeptConfiguration("c1", "h1", 1.0, ("/site/conf",), (file,))
    sealed = seal(zlib.compress(msgspec.json.encode(kept)), SECRET)
    with pytest.raises(BadRequest, match="is in none of the folders /site/conf"):
        kept_configuration(sealed, SECRET, "copy")


def test_nothing_sealed_looks_like_another_or_is_changed_unnoticed() -> None:
    sealed = seal(b"data", SECRET)
    assert seal(b"data", SECRET) != sealed and unseal(sealed, SECRET, "x") == b"data"
    for place in range(len(sealed)):
        changed = bytearray(sealed)
        changed[place] ^= 1
        if place < 16 or place % 7 == 0:  # each try takes a tenth of a second
            with pytest.raises(BadRequest):
                unseal(bytes(changed), SECRET, "x")
    with pytest.raises(BadRequest):
        unseal(sealed[:20], SECRET, "x")


def test_of_daily_copies_the_newest_are_kept(site: Site) -> None:
    folder = site.folder / "copies"
    folder.mkdir()
    others = ["c1-notes.backup", "c2-20200101T000000Z.backup", "c1-20200101T000000Z.backup.old"]
    old = [f"c1-2020010{day}T000000Z.backup" for day in range(1, 5)]
    for name in others + old:
        (folder / name).write_text("")
    lines = said("backup", "--envdir", str(site.conf), "--into", str(folder), "--keep", "3").splitlines()
    made = Path(lines[0].partition(": ")[0])
    assert made.parent == folder and made.stat().st_mode & 0o777 == 0o600
    assert lines[2:] == [f"removed: {folder}/{name}, as 3 are kept" for name in old[:2]]
    assert {path.name for path in folder.iterdir()} == {*others, *old[2:], made.name}
    (site.state / "gsched.db").write_bytes(b"x" * 5000)
    with pytest.raises(GschedError):
        said("backup", "--envdir", str(site.conf), "--into", str(folder), "--keep", "1")
    assert {path.name for path in folder.iterdir()} == {*others, *old[2:], made.name}, "a failure takes none away"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "say where to"),
        (("--into", "x", "file"), "say where to"),
        (("--keep", "3", "file"), "--keep is for --into"),
        (("--into", "/nowhere/at/all"), "/nowhere/at/all/c1-.*: No such file or directory"),
    ],
)
def test_where_a_copy_goes_is_said_once(site: Site, words: tuple[str, ...], text: str) -> None:
    with pytest.raises(BadRequest, match=text):
        said("backup", "--envdir", str(site.conf), *words)
