"""The documents: links lead somewhere, every command is told of, and no path of a developer's machine is in them."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from gsched.app.commands import groups
from gsched.cli.registry import ALIASES, COMMANDS
from tests.gpu.findings import ROWS
from tests.support.fleet_guide import AS_USER, ON_EVERY_HOST, ON_FIRST, commands_below

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


def anchor(heading: str) -> str:
    """The anchor that a heading gets: lower case, blanks as dashes, other characters left out."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(document: Path) -> set[str]:
    return {anchor(line.lstrip("#")) for line in document.read_text().splitlines() if line.startswith("#")}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", document.read_text()):
        if target.startswith("https://"):
            continue
        name, _, fragment = target.partition("#")
        place = (document.parent / name).resolve() if name else document
        assert place.exists(), target
        assert not fragment or fragment in anchors(place), target


def test_every_document_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    missing = [
        path.name for path in ROOT.glob("docs/*.md") if path.name != "index.md" and f"({path.name})" not in index
    ]
    assert missing == []


def test_every_command_is_told_of() -> None:
    text = (ROOT / "docs" / "commands.md").read_text()
    assert [name for name in COMMANDS if name not in text] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_paths_are_placeholders(document: Path) -> None:
    text = document.read_text()
    assert set(re.findall(r"/home/(\w+)", text)) <= {"ann"}
    assert not re.search(r"/(tmp|root|work|mnt)/\S", text)


def rows(document: str, heading: str) -> list[list[str]]:
    """Cells of the table that begins with this header line, without header and rule."""
    lines = (ROOT / "docs" / document).read_text().splitlines()
    first = lines.index(heading) + 2
    table = itertools.takewhile(lambda line: line.startswith("|"), lines[first:])
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def test_the_table_of_the_checks_on_gpus_is_that_of_the_page() -> None:
    heading = "| what | simulated GPUs | NVML bindings with a stand-in for the driver library | real GPU |"
    assert tuple(row[0] for row in rows("gpu-checks.md", heading)) == ROWS


def test_names_of_lsf_mean_what_the_guide_says() -> None:
    for theirs, ours in rows("from-lsf.md", "| LSF | gsched |"):
        named = [ALIASES.get(name, "gadmin") for name in re.findall(r"\w+", theirs)]
        assert set(named) == set(re.findall(r"\w+", ours)), theirs


def test_what_the_guide_offers_for_what_one_knows_is_there() -> None:
    ours = " ".join(here for _, here in rows("from-lsf.md", "| you know | here |"))
    named = re.findall(r"`(g[a-z]+)(?: (-?\w+))?[^`]*`", ours)
    assert {"gsched", "gadmin", "ghist", "gacct", "gjobs", "gsub"} <= {name for name, _ in named}
    for name, word in named:
        assert name in COMMANDS or name in ("gsched", "gadmin"), name
        known = {"gsched": set(groups.gsched.words()), "gadmin": set(groups.gadmin.words())}.get(name, {word})
        assert word in known, (name, word)


def test_names_that_the_guide_says_are_not_there_are_not() -> None:
    text = (ROOT / "docs" / "from-lsf.md").read_text()
    told = re.search(r"^Not there, .*?: (.*?)\.$", text, re.MULTILINE | re.DOTALL)
    assert told is not None
    names = re.findall(r"`(\w+)`", told[1])
    assert len(names) > 5 and not set(names) & set(ALIASES)


@pytest.mark.parametrize(
    ("guide", "programs"),
    [
        ("from-pbs.md", ("parsl", "dask-jobqueue", "psij-python", "FireWorks")),
        (
            "from-lsf.md",
            ("dask-jobqueue", "snakemake", "snakemake-executor-plugin-lsf", "psij-python", "toil", "parsl"),
        ),
        (
            "from-slurm.md",
            (
                "submitit",
                "snakemake-executor-plugin-slurm",
                "parsl",
                "dask-jobqueue",
                "psij-python",
                "pytorch-lightning",
                "FireWorks",
            ),
        ),
    ],
)
def test_the_programs_that_are_driven_are_those_of_the_guide(guide: str, programs: tuple[str, ...]) -> None:
    told = " ".join(" ".join(row) for row in rows(guide, "| program | GPUs | worth knowing |"))
    pins = "".join(path.read_text() for path in ROOT.glob("tests/clients/*.txt"))
    versions = dict(re.findall(r"^([\w-]+)==([\d.]+)$", pins, re.MULTILINE))
    for name in programs:
        assert versions[name] in told, name


def test_the_guide_to_a_fleet_has_ten_commands() -> None:
    """Those by which the tests of booted hosts install them, which not every run of the tests can do."""
    assert sum(len(commands_below(line)) for line in (ON_EVERY_HOST, ON_FIRST, AS_USER)) == 10
    assert any("host-files" in command for command in commands_below(ON_FIRST))


def test_the_change_log_has_its_sections() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    unreleased = re.split(r"^## ", text, flags=re.MULTILINE)[1]
    sections = re.findall(r"^### (.*)$", unreleased, re.MULTILINE)
    assert sections == [name for name in ("Added", "Changed", "Fixed", "Removed", "Security") if name in sections]
    entries = re.findall(r"^- .*(?:\n  .*)*", unreleased, re.MULTILINE)
    assert len(entries) == len(set(entries))
