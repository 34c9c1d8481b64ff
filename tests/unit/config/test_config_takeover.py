"""The files of an installation of LSF become files that gsched takes, and each line is told of."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lsf_trees import lay_out

from gsched.base.errors import Conflict, GschedError
from gsched.config.configuration import check_texts, load
from gsched.config.takeover.edited_file import EditedFile
from gsched.config.takeover.installation import LsfInstallation, read_installation
from gsched.config.takeover.own_settings import Folders
from gsched.config.takeover.report import LineStanding, ReportLine, report_of, summary
from gsched.config.takeover.taking_over import Takeover, take_over
from gsched.config.takeover.writing import REPORT, write_folder
from tests.support.property_examples import examples

NOON, MIDNIGHT = 12 * 60, 0


def taken(envdir: Path) -> tuple[Takeover, list[ReportLine]]:
    new = take_over(read_installation(str(envdir)), "/new/conf", Folders())
    return new, report_of(new)


def told(lines: list[ReportLine], name: str, said: str) -> str:
    """What is said of the line of that file that holds `said`."""
    (found,) = [f"{each.standing}: {each.text}" for each in lines if Path(each.path).name == name and said in each.text]
    return found


def test_the_files_that_lsf_101_is_installed_with(tmp_path: Path) -> None:
    new, lines = taken(lay_out("lsf101", tmp_path / "conf", "cluster1"))
    assert [str(line) for line in lines if line.standing is LineStanding.REFUSED] == []
    loaded = check_texts("/new/conf", new.texts())
    assert loaded.config is not None and loaded.config.cluster == "cluster1"
    assert loaded.config.locations.state_dir == "/var/lib/gsched"
    assert loaded.config.locations.log_dir == "/var/log/gsched"
    assert told(lines, "lsf.conf", "LSF_CONFDIR=").startswith("translated: ")
    assert told(lines, "lsf.conf", "LSF_TOP=") == (
        "noted: LSF_TOP=/usr/share/lsf: LSF_TOP has no effect: gsched is installed and started in its own way"
    )
    assert told(lines, "lsf.conf", "LSF_PROCESS_TRACKING=").startswith("translated: ")
    assert told(lines, "lsb.queues", "r15s ") == "same: r15s         = 0.3/1.5"
    assert told(lines, "lsb.modules", "not read").startswith("noted: ")


def test_the_files_of_a_site_with_lsf_91(tmp_path: Path) -> None:
    new, lines = taken(lay_out("lsf91", tmp_path / "conf", "prod"))
    for minute in (NOON, MIDNIGHT):
        loaded = check_texts("/new/conf", new.texts(), minute=minute)
        assert [str(problem) for problem in loaded.problems if problem.severity == "error"] == []
        assert loaded.config is not None
        gpu = loaded.config.queues["gpu"]
        assert gpu.user_limit == (4 if minute == NOON else 16)
        assert loaded.config.queues["batch"].task_limit == (1, 4, 64)
        assert loaded.config.queues["batch"].interactive == "NO"
        assert loaded.config.hosts["gpu01"].resources == ("bigmem",)
        assert loaded.config.hosts["gpu01"].max_slots == 16
        assert loaded.config.hosts["head1"].resources == ("bigmem",)
        assert loaded.config.host_groups["heads"] == ("head1", "head2")
        assert len(loaded.config.limits) == 2
        assert loaded.config.master_host == "head1"
    conf = new.texts()["lsf.conf"]
    assert "LSF_UNIT_FOR_LIMITS=KB\n" in conf
    assert '# In LSF: LSF_MASTER_LIST="head1 head2"\nLSF_MASTER_LIST=head1\n' in conf
    assert told(lines, "lsf.conf", "LSF_MASTER_LIST").startswith("refused: ")
    assert told(lines, "lsf.cluster.prod", "gpu01 ").startswith("refused: ")
    assert "lsb.hosts" in "".join(line.path for line in lines if line.standing is LineStanding.REFUSED)
    for name, said in (("lsb.queues", "NQS_QUEUES"), ("lsb.queues", "CHKPNT"), ("common.queue", "USE_PAM_CREDS")):
        assert told(lines, name, f"{said} ").startswith("refused: ")
    assert "section HostPartition: " in told(lines, "lsb.hosts", "HostPartition")
    assert told(lines, "lsb.serviceclasses", "GOALS").startswith("refused: ")
    assert told(lines, "lsb.queues", "not UTF-8").startswith("translated: ")
    assert "für alle" in new.texts()["lsb.queues"]
    assert told(lines, "hosts", "not read").startswith("noted: ")
    assert told(lines, "lsb.queues", "#INCLUDE").endswith('#INCLUDE "include/common.queue"')


def test_what_is_not_taken_over_stays_in_its_place_with_the_reason(tmp_path: Path) -> None:
    new, _ = taken(lay_out("lsf91", tmp_path / "conf", "prod"))
    texts = new.texts()
    assert re.search(
        r"# Not taken over: NQS_QUEUES is not supported yet: .*\n# NQS_QUEUES   = far@away\n#endif", texts["lsb.queues"]
    )
    assert re.search(
        r"# Not taken over: RESOURCES: matlab is not defined in lsf.shared.*\n"
        r"# gpu01 .*\ngpu01  !  X86_64  1  \(\)  \(\)  \(\)  \(bigmem\)\n",
        texts["lsf.cluster.prod"],
    )
    assert re.search(r"# Not taken over: section HostPartition .*\n# Begin HostPartition\n", texts["lsb.hosts"])
    assert "# End HostPartition" in texts["lsb.hosts"]


def test_the_report_tells_of_each_line_once(tmp_path: Path) -> None:
    _, lines = taken(lay_out("lsf91", tmp_path / "conf", "prod"))
    places = Counter((line.path, line.line) for line in lines if line.line)
    assert [place for place, count in places.items() if count > 1] == []
    assert re.fullmatch(r"\d+ lines: \d+ same, \d+ translated, \d+ noted, \d+ refused", summary(lines))


def own_umask() -> int:
    umask = os.umask(0o022)
    os.umask(umask)
    return umask


def test_what_is_written_is_taken_as_it_is_a_second_time(tmp_path: Path) -> None:
    envdir = lay_out("lsf91", tmp_path / "conf", "prod")
    new, lines = taken(envdir)
    folder = tmp_path / "new"
    moved = {name: text.replace("/new/conf", str(folder)) for name, text in new.texts().items()}
    write_folder(str(folder), new.cluster, moved, "".join(f"{line}\n" for line in lines), new.modes())
    assert (folder / REPORT).read_text().splitlines() == [str(line) for line in lines]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o777 & ~own_umask()
    assert [str(each) for each in load(str(folder)).problems if each.severity == "error"] == []
    assert (folder / "lsbatch" / "prod" / "configdir" / "lsb.queues").exists()
    again = report_of(take_over(read_installation(str(folder)), str(folder), Folders()))
    assert [str(line) for line in again if line.standing is LineStanding.REFUSED] == []


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    folder.mkdir()
    write_folder(str(folder), "c", {"lsf.conf": "A=b\n"}, "", {})
    before = sorted(folder.iterdir())
    with pytest.raises(Conflict, match="is not empty"):
        write_folder(str(folder), "c", {"lsf.conf": "C=d\n"}, "", {})
    assert sorted(folder.iterdir()) == before and (folder / "lsf.conf").read_text() == "A=b\n"
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def included(envdir: Path, names: list[str]) -> None:
    """Files that include each other in that order, from lsb.queues on."""
    batch = envdir / "lsbatch" / "cluster1" / "configdir"
    for name, then in zip(["lsb.queues", *names], [*names, ""], strict=True):
        before = (batch / name).read_text() if name == "lsb.queues" else ""
        text = f'{before}#INCLUDE "{then}"\n' if then else "Begin Queue\nQUEUE_NAME = deep\nEnd Queue\n"
        if not (batch / name).exists() or name == "lsb.queues":
            (batch / name).write_text(text)


def test_ten_levels_of_included_files(tmp_path: Path) -> None:
    envdir = lay_out("lsf101", tmp_path / "conf", "cluster1")
    included(envdir, [f"q{number}" for number in range(10)])
    new, _ = taken(envdir)
    loaded = check_texts("/new/conf", new.texts())
    assert loaded.config is not None and "deep" in loaded.config.queues
    included(lay_out("lsf101", tmp_path / "more", "cluster1"), [f"q{number}" for number in range(11)])
    with pytest.raises(GschedError, match=r'q9:1: #INCLUDE "q10": more than 10 files in one another'):
        taken(tmp_path / "more")


def test_files_that_include_each_other_in_a_circle_are_named(tmp_path: Path) -> None:
    envdir = lay_out("lsf101", tmp_path / "conf", "cluster1")
    included(envdir, ["a", "b"])
    (envdir / "lsbatch/cluster1/configdir/b").write_text('\n#INCLUDE "a"\n')
    with pytest.raises(GschedError, match=r'b:2: #INCLUDE "a": files include each other in a circle: \S+/a includes'):
        taken(envdir)


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("lsb.queues", b"Begin Queue\0\n", "lsb.queues:1: not a text file"),
        ("lsb.queues", b"#" * (5 << 20), "lsb.queues: the file is larger than 4 MiB"),
        ("lsb.queues", b"", "lsb.queues: no queue is defined"),
        ("lsb.users", b'#INCLUDE "gone"\n', "lsb.users:1: #INCLUDE: "),
    ],
)
def test_files_that_cannot_be_taken_over(name: str, data: bytes, said: str, tmp_path: Path) -> None:
    envdir = lay_out("lsf101", tmp_path / "conf", "cluster1")
    (envdir / "lsbatch" / "cluster1" / "configdir" / name).write_bytes(data)
    with pytest.raises(GschedError) as refused:
        taken(envdir)
    assert said in refused.value.text and len(refused.value.text) < 1000


def test_a_file_that_is_a_folder_and_one_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(GschedError, match=r"there is no lsf\.conf in it"):
        taken(tmp_path)
    envdir = lay_out("lsf101", tmp_path / "conf", "cluster1")
    (envdir / "lsf.shared").unlink()
    (envdir / "lsf.shared").mkdir()
    with pytest.raises(GschedError, match=r"lsf\.shared: cannot be read: Is a directory"):
        taken(envdir)


def test_a_line_of_a_megabyte(tmp_path: Path) -> None:
    envdir = lay_out("lsf101", tmp_path / "conf", "cluster1")
    users = " ".join(f"u{number}" for number in range(150_000))
    queues = envdir / "lsbatch" / "cluster1" / "configdir" / "lsb.queues"
    queues.write_text(f"Begin Queue\nQUEUE_NAME = big\nNQS_QUEUES = {users}\nEnd Queue\n")
    new, lines = taken(envdir)
    assert told(lines, "lsb.queues", "NQS_QUEUES").startswith("refused: ")
    assert max(len(str(line)) for line in lines) < 500
    assert f"# NQS_QUEUES = {users}\n" in new.texts()["lsb.queues"]


def test_of_several_clusters_one_is_named(tmp_path: Path) -> None:
    envdir = lay_out("lsf101", tmp_path / "conf", "cluster1")
    (envdir / "lsf.cluster.other").write_text((envdir / "lsf.cluster.cluster1").read_text())
    shared = (envdir / "lsf.shared").read_text()
    (envdir / "lsf.shared").write_text(shared.replace("cluster1\nEnd", "cluster1\nother\nEnd"))
    with pytest.raises(GschedError, match=r"has 2 clusters \(cluster1 other\): --cluster NAME"):
        taken(envdir)
    new = take_over(read_installation(str(envdir), "cluster1"), "/new/conf", Folders())
    lines = report_of(new)
    assert told(lines, "lsf.shared", "a second cluster").startswith("refused: other: ")
    assert check_texts("/new/conf", new.texts()).config is not None


def test_a_condition_that_gsched_does_not_know_takes_its_block_with_it(tmp_path: Path) -> None:
    envdir = lay_out("lsf101", tmp_path / "conf", "cluster1")
    queues = envdir / "lsbatch" / "cluster1" / "configdir" / "lsb.queues"
    zone = "Begin Queue\nQUEUE_NAME = z\n#if time(8:00-9:00 EDT)\nUJOB_LIMIT = 1\n#else\nUJOB_LIMIT = 2\n#endif\n"
    queues.write_text(f"{queues.read_text()}{zone}PRIORITY = 7\nEnd Queue\n")
    new, lines = taken(envdir)
    loaded = check_texts("/new/conf", new.texts())
    assert loaded.config is not None
    assert (loaded.config.queues["z"].user_limit, loaded.config.queues["z"].priority) == (None, 7)
    assert "time zones are not supported" in told(lines, "lsb.queues", "EDT")


WORDS = [
    *(
        "Begin Queue",
        "End Queue",
        "Begin",
        "End",
        "Begin Host",
        "End Host",
        "Begin Limit",
        "Begin Nonsense",
        "QUEUE_NAME = x",
    ),
    *(
        "QUEUE_NAME = night",
        "PRIORITY = many",
        "HOSTS = gone+1 hosta",
        "a b c d",
        "DEFAULT_QUEUE = gone",
        "hosta 3",
        "= 4",
    ),
    *(
        "#if time(1:00-2:00)",
        "#else",
        "#endif",
        "#elif time(25)",
        "RES_REQ = select[gone>1]",
        "NQS_QUEUES = y \\",
        "\\",
    ),
    *(
        "LSF_ENABLE_EGO=Y",
        "LSB_SHAREDIR=/a",
        "MXJ",
        "HOST_NAME MXJ gone",
        "hosta ! (",
        "USERS = ((",
        "FAIRSHARE = x",
        "\t",
    ),
]


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2000), st.sampled_from(WORDS)), min_size=1, max_size=6), st.data())
def test_whatever_lines_are_added_the_outcome_is_taken_and_no_line_is_lost(
    lines: list[tuple[int, str]], data: st.DataObject
) -> None:
    texts = {path.name: path.read_text() for path in Path(__file__).with_name("lsf101").iterdir()}
    name = data.draw(st.sampled_from(sorted(texts)))
    raw = texts[name].split("\n")
    for at, line in lines:
        raw.insert(at % len(raw), line)
    texts[name] = "\n".join(raw)
    files = {each: EditedFile(each, f"/lsf/{each}", text) for each, text in texts.items()}
    try:
        new = take_over(LsfInstallation("cluster1", files), "/new/conf", Folders())
    except GschedError as error:
        assert error.text
        return
    for minute in (NOON, MIDNIGHT, 90):
        assert check_texts("/new/conf", new.texts(), minute=minute).config is not None
    for each, text in texts.items():
        written = Counter(new.texts()[each].split("\n"))
        for line, count in Counter(text.split("\n")).items():
            kept = written[line] + written[f"# {line}"] + written[f"# In LSF: {line.strip()}"]
            assert kept >= count, (each, line)
    report_of(new)
