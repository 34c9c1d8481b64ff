"""`gsched import-lsf`: what it prints, writes and ends with."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from click.testing import CliRunner, Result

from gsched.app.commands.groups import gadmin, gsched

SETTINGS = Path(__file__).parents[1] / "config" / "lsf101"


def installation(folder: Path) -> Path:
    batch = folder / "lsbatch" / "cluster1" / "configdir"
    batch.mkdir(parents=True)
    for path in SETTINGS.iterdir():
        (batch if path.name.startswith("lsb.") else folder).joinpath(path.name).write_text(path.read_text())
    return folder


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(gsched, ["import-lsf", *map(str, words)])


def test_a_whole_installation_is_taken_over(tmp_path: Path) -> None:
    done = run(installation(tmp_path / "lsf"), tmp_path / "new" / "conf")
    assert done.exit_code == 0, done.output
    report = (tmp_path / "new" / "conf" / "import-report.txt").read_text()
    assert done.stdout.startswith(report) and " 0 refused\n" in report
    checked = CliRunner().invoke(gadmin, ["ckconfig", "--envdir", str(tmp_path / "new" / "conf")])
    assert checked.exit_code == 0 and "No errors found." in checked.stderr


def test_what_is_refused_ends_with_1_and_is_written_nevertheless(tmp_path: Path) -> None:
    envdir = installation(tmp_path / "lsf")
    (envdir / "lsf.conf").write_text((envdir / "lsf.conf").read_text() + "LSF_BIND_JOB=BALANCE\n")
    done = run(envdir, tmp_path / "new", "--quiet")
    assert done.exit_code == 1
    assert "refused: LSF_BIND_JOB=BALANCE: " in done.stdout and ": same: " not in done.stdout
    assert "\n# LSF_BIND_JOB=BALANCE\n" in (tmp_path / "new" / "lsf.conf").read_text()


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    envdir = installation(tmp_path / "lsf")
    done = run(envdir, "--dry-run")
    assert done.exit_code == 0 and " 0 refused" in done.stdout
    run(envdir, tmp_path / "new", "--dry-run")
    assert [path.name for path in tmp_path.iterdir()] == ["lsf"]


def test_no_file_is_open_to_more_people_than_that_of_lsf(tmp_path: Path) -> None:
    envdir = installation(tmp_path / "lsf")
    (envdir / "lsf.conf").chmod(0o600)
    (envdir / "lsbatch" / "cluster1" / "configdir" / "lsb.users").chmod(0o640)
    (envdir / "lsf.shared").chmod(0o666)
    mask = os.umask(0o027)
    try:
        assert run(envdir, tmp_path / "new").exit_code == 0
    finally:
        os.umask(mask)
    modes = {name: stat.S_IMODE((tmp_path / "new" / name).stat().st_mode) for name in ("lsf.conf", "import-report.txt")}
    assert modes == {"lsf.conf": 0o600, "import-report.txt": 0o600}  # the report holds the lines of all
    for name in ("lsb.users", "lsf.shared"):
        assert stat.S_IMODE((tmp_path / "new" / name).stat().st_mode) == 0o640


def test_folders_of_its_own(tmp_path: Path) -> None:
    run(installation(tmp_path / "lsf"), tmp_path / "a" / "conf", "--base", tmp_path / "a")
    conf = (tmp_path / "a" / "conf" / "lsf.conf").read_text()
    for name, folder in (("LSB_SHAREDIR", "state"), ("LSF_LOGDIR", "log"), ("GSCHED_RUNDIR", "run")):
        assert f"\n{name}={tmp_path}/a/{folder}\n" in conf


def test_bad_input_is_one_line_and_2(tmp_path: Path) -> None:
    envdir = installation(tmp_path / "lsf")
    for words, said in (
        ((tmp_path, tmp_path / "new"), f"import-lsf: {tmp_path}: there is no lsf.conf in it: it is no LSF_ENVDIR\n"),
        ((envdir,), "import-lsf: DIR is missing: where the new files are to be (--dry-run writes none)\n"),
        (
            (envdir, envdir),
            f"import-lsf: {envdir} is not empty (lsbatch is in it): nothing is ever replaced; name another",
        ),
        ((envdir, envdir / "lsf.conf"), f"import-lsf: {envdir}/lsf.conf: Not a directory\n"),
        ((envdir, tmp_path / "new", "--cluster", "../../x"), "import-lsf: '../../x' cannot be the name of a cluster\n"),
        ((envdir, tmp_path / "new", "--envdir", tmp_path), "import-lsf: --envdir goes with --history only: "),
        (("--history", "x", "--dry-run"), "import-lsf: --dry-run does not go with --history\n"),
        (("--history", "x", "--base", tmp_path), "import-lsf: --base does not go with --history\n"),
        (("--history", "x", "-q"), "import-lsf: --quiet does not go with --history\n"),
        (("--history", "x", "--cluster", "a/b"), "import-lsf: 'a/b' cannot be the name of a cluster\n"),
        ((envdir, envdir / "lsf.conf" / "x"), f"import-lsf: {envdir}/lsf.conf/x: Not a directory\n"),
    ):
        done = run(*words)
        assert done.exit_code == 2 and done.stdout == "" and done.stderr.startswith(said), (words, done.output)
        assert done.stderr.count("\n") == 1
