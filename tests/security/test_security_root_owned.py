"""Who can change what root's agent runs or reads is root: it is looked at, and the agent does not begin."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gsched.agent import daemon as agent_daemon
from gsched.agent import trusted_files
from gsched.agent.gpu.mps_for_jobs import Mps
from gsched.agent.trusted_files import Changeable
from gsched.base.coded_text import sentence
from gsched.base.errors import ResourceExhausted
from gsched.base.machine.root_owned import problem_below, who_may_change
from gsched.config.template import NewConfiguration, private_texts
from gsched.model.config import Locations
from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.allocation import HeldGpu, HostAllocation
from gsched.probe.elims.elim import ElimResource, ElimRunner
from gsched.probe.elims.elim_program import ElimRules
from gsched.run.program import ProgramEnd
from tests.support.folders import new_folder

pytestmark = pytest.mark.needs_root
STRANGER = 54321


@pytest.fixture
def folder() -> Iterator[Path]:
    """Root's, as are all above it."""
    if os.geteuid():
        pytest.skip("needs root: files of several users")
    folder = new_folder()
    above = who_may_change(str(folder))
    if above:
        pytest.skip(f"temporary files lie where others can put something else in their place: {above}")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def conf(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration; of the interpreter nothing is looked at, for it may be anybody's where tests run."""
    conf = folder / "conf"
    conf.mkdir(mode=0o755)
    for name in ("lsf.conf", "lsf.shared", "lsf.cluster.c", "lsb.queues"):
        (conf / name).touch(mode=0o644)
    (conf / "notes.txt").touch()
    os.chown(conf / "notes.txt", STRANGER, STRANGER)  # nobody reads it
    monkeypatch.setattr(trusted_files, "_interpreter", lambda: iter(()))
    monkeypatch.setattr(trusted_files, "packages", lambda: [str(folder / "python")])
    monkeypatch.setattr(sys, "path", [str(folder / "site-packages")])
    (folder / "python").mkdir(mode=0o755)
    (folder / "site-packages").mkdir(mode=0o755)
    trusted_files.check(str(conf))
    return conf


def refused(conf: Path) -> str:
    with pytest.raises(Changeable) as caught:
        trusted_files.check(str(conf))
    text, end = caught.value.text.split("; ")
    assert end == "what root's agent runs and reads must be for root alone to change"
    return text


@pytest.mark.parametrize("name", ["lsf.conf", "lsf.shared", "lsf.cluster.c", "lsb.queues"])
def test_a_file_of_the_configuration_that_another_can_change(conf: Path, name: str) -> None:
    os.chown(conf / name, STRANGER, 0)
    assert refused(conf) == f"{conf}/{name}: belongs to uid {STRANGER}"
    os.chown(conf / name, 0, STRANGER)
    trusted_files.check(str(conf))  # of that group, who may read
    (conf / name).chmod(0o664)
    assert refused(conf) == f"{conf}/{name}: may be written by group {STRANGER} (mode 0664)"
    os.chown(conf / name, 0, 0)
    trusted_files.check(str(conf))  # root's own group
    (conf / name).chmod(0o646)
    assert refused(conf) == f"{conf}/{name}: may be written by everybody (mode 0646)"


def test_a_file_that_the_configuration_includes_from_elsewhere(
    conf: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the daemon itself, as far as its first look."""
    places = {name: str(folder / name) for name in ("state_dir", "log_dir", "server_dir", "run_dir", "spool_dir")}
    for name, text in private_texts(
        NewConfiguration(
            cluster="c",
            hosts=["h1"],
            slots=1,
            folders=Locations(conf_dir=str(conf), **places),
            gpu_provider="none",
            administrators=["root"],
        )
    ).items():
        (conf / Path(name).name).write_text(text)
    with (conf / "lsf.conf").open("a") as file:
        file.write("LSB_MBD_PORT=6881\n")
    theirs = folder / "theirs"
    theirs.write_text("Begin Queue\nQUEUE_NAME = more\nEnd Queue\n")
    with (conf / "lsb.queues").open("a") as file:
        file.write('#INCLUDE "../theirs"\n')
    monkeypatch.setattr(agent_daemon, "check_certificate", lambda *_: None)
    reached = RuntimeError("it goes on")

    def go_on(*_: object) -> None:
        raise reached

    monkeypatch.setattr(agent_daemon, "only_one", go_on)
    with pytest.raises(RuntimeError, match="it goes on"):
        agent_daemon.run(str(conf), "h1")
    os.chown(theirs, STRANGER, 0)
    with pytest.raises(Changeable, match=rf"^{theirs}: belongs to uid {STRANGER}; "):
        agent_daemon.run(str(conf), "h1")


def test_certificates_below_a_folder_that_another_can_change(conf: Path, folder: Path) -> None:
    """Who can put another CA there can be the master."""
    tls = folder / "theirs" / "tls"
    tls.mkdir(parents=True)
    (tls / "ca.crt").touch(mode=0o644)
    read = [f"{tls}/{name}" for name in ("ca.crt", "h1.crt", "revoked")]
    trusted_files.check(str(conf), read)
    os.chown(tls.parent, STRANGER, 0)
    with pytest.raises(Changeable, match=rf"^{tls.parent}: belongs to uid {STRANGER}; "):
        trusted_files.check(str(conf), read)


def test_a_spool_folder_that_another_can_change(folder: Path) -> None:
    """Who can write an order there says what root executes."""
    spool = folder / "spool" / "h1"
    spool.mkdir(parents=True)
    trusted_files.check_spool(str(spool))
    (spool / "attempts" / "1.1").mkdir(parents=True)
    os.chown(spool / "attempts" / "1.1", STRANGER, 0)
    with pytest.raises(Changeable, match=rf"^{spool}/attempts/1.1: belongs to uid {STRANGER}; "):
        trusted_files.check_spool(str(spool))
    os.chown(spool / "attempts" / "1.1", 0, 0)
    script = spool / "attempts" / "1.1" / "script"
    script.touch()
    os.chown(script, STRANGER, 0)
    trusted_files.check_spool(str(spool))
    spool.parent.chmod(0o777)
    with pytest.raises(Changeable, match=rf"^{spool.parent}: may be written by everybody \(mode 0777\); "):
        trusted_files.check_spool(str(spool))


def test_a_program_of_mps_that_another_can_change_is_not_run(folder: Path) -> None:
    program = folder / "nvidia-cuda-mps-control"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    os.chown(program, STRANGER, 0)

    async def run(*_: object) -> ProgramEnd:
        raise AssertionError("it is run")

    keeper = Mps(str(program), "c", folder / "spool", run=run, may_run=who_may_change)
    part = HostAllocation(host="h1", slots=1, gpus=(HeldGpu(uuid="GPU-0", index=0, claim="gpu_shared"),))
    spec = JobSpec(command="x", user="ann", queue="q", combined_gpu_req="num=1:mps=yes")
    with pytest.raises(ResourceExhausted, match=f"for others than root can change it: {program}: belongs to uid"):
        asyncio.run(keeper.before((1, 1), part, spec))


def test_a_folder_above_that_another_can_change(conf: Path) -> None:
    conf.parent.chmod(0o757)
    assert refused(conf) == f"{conf.parent}: may be written by everybody (mode 0757)"
    conf.parent.chmod(0o1777)  # as /tmp is
    trusted_files.check(str(conf))


def test_a_link_through_a_folder_of_somebodys(conf: Path, folder: Path) -> None:
    """Wherever on the way it stands: who owns it, says where it leads."""
    theirs = folder / "theirs"
    theirs.mkdir()
    os.chown(theirs, STRANGER, STRANGER)
    (conf / "lsf.conf").rename(conf / "true.conf")
    (theirs / "step").symlink_to(conf / "true.conf")
    (conf / "lsf.conf").symlink_to("../theirs/../theirs/step")
    assert refused(conf) == f"{theirs}: belongs to uid {STRANGER}"
    (conf / "lsf.conf").unlink()
    (conf / "lsf.conf").symlink_to(conf / "lsf.conf")
    with pytest.raises(Exception, match=r"circle|symbolic links"):
        trusted_files.check(str(conf))


def test_modules_and_packages_that_another_can_change(conf: Path, folder: Path) -> None:
    deep = folder / "python" / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "module.py").touch()
    trusted_files.check(str(conf))
    os.chown(deep / "module.py", STRANGER, 0)
    assert refused(conf) == f"{deep}/module.py: belongs to uid {STRANGER}"
    (deep / "module.py").unlink()
    (folder / "site-packages" / "evil.pth").touch()
    os.chown(folder / "site-packages" / "evil.pth", STRANGER, 0)
    assert refused(conf) == f"{folder}/site-packages/evil.pth: belongs to uid {STRANGER}"
    (folder / "site-packages" / "evil.pth").unlink()
    (folder / "site-packages").chmod(0o777)
    assert refused(conf) == f"{folder}/site-packages: may be written by everybody (mode 0777)"


def test_the_interpreter_itself_is_among_what_is_looked_at() -> None:
    looked_at = set(trusted_files._interpreter())
    assert {sys.executable, f"{sys.prefix}/pyvenv.cfg"} <= looked_at
    assert any("libc" in os.path.basename(path) or "musl" in path for path in looked_at)
    library, *others = trusted_files.packages()
    assert Path(library, "os.py").exists()
    assert str(Path(trusted_files.__file__).parents[1]) in others


def test_what_is_not_there_harms_nobody(folder: Path) -> None:
    assert who_may_change(f"{folder}/none/at/all") == ""
    (folder / "file").touch()
    assert who_may_change(f"{folder}/file/below") == ""
    (folder / "dangling").symlink_to("nothing")
    assert problem_below(str(folder)) == ""


def test_an_elim_that_another_can_change_is_not_run_as_root(folder: Path) -> None:
    for name in ("elim.good", "elim.bad"):
        elim = folder / name
        elim.write_text(f"#!/bin/sh\ntouch {folder}/ran.{name}\necho 1 {name[5:]} 7\nexec sleep 600\n")
        elim.chmod(0o755)
    os.chown(folder / "elim.bad", STRANGER, STRANGER)

    async def story() -> None:
        changed = asyncio.Event()
        runner = ElimRunner(folder, rules=ElimRules(restart_s=0.1), on_change=changed.set, may_run=who_may_change)
        try:
            wanted = {"good": ElimResource(60.0), "bad": ElimResource(60.0)}
            async with asyncio.timeout(120):
                await runner.reconfigure(wanted)
                while runner.values() != {"good": 7.0}:
                    await changed.wait()
                    changed.clear()
                assert tuple(map(sentence, runner.notes())) == (
                    f"elim.bad: not run as root: {folder}/elim.bad: belongs to uid {STRANGER}",
                )
                assert not (folder / "ran.elim.bad").exists()
                os.chown(folder / "elim.bad", 0, 0)
                await runner.reconfigure(wanted)
                while runner.values() != {"good": 7.0, "bad": 7.0}:
                    await changed.wait()
                    changed.clear()
                assert runner.notes() == ()
        finally:
            await runner.close()

    asyncio.run(story())
