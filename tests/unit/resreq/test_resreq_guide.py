"""Every example of the user's guide is read, refused or combined as the guide says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from resreq_readings import combine_texts

from gsched.base.errors import RequirementError
from gsched.resreq.parsing.gpu import BAD_GPU, parse_gpu, print_gpu
from gsched.resreq.parsing.printer import print_any
from gsched.resreq.parsing.syntax import parse, parse_any, parse_combined_any, print_requirement

GUIDE = (Path(__file__).parents[3] / "docs" / "requirements.md").read_text("utf-8")


def _examples(kind: str) -> list[str]:
    blocks = re.findall(rf"^```{kind}\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


def _rows(pattern: str) -> list[tuple[str, ...]]:
    rows = [line for line in GUIDE.splitlines() if line.startswith("|")]
    found = [match.groups("") for row in rows if (match := re.fullmatch(pattern, row)) is not None]
    return [tuple(cell.replace("\\|", "|") for cell in row) for row in found]


def test_the_guide_has_examples() -> None:
    kinds = {"resreq": 30, "resreq-refused": 3, "gpu": 5, "gpu-refused": 6}
    assert {kind: len(_examples(kind)) >= least for kind, least in kinds.items()} == dict.fromkeys(kinds, True)


@pytest.mark.parametrize("text", _examples("resreq"))
def test_examples_are_read_printed_and_combined(text: str) -> None:
    requirement = parse_any(text)
    assert parse_any(print_any(requirement)) == requirement
    combined = combine_texts(text)
    assert parse_combined_any(combined.text) == combined.whole


@pytest.mark.parametrize("text", _examples("resreq-refused"))
def test_what_the_guide_calls_unsupported_is_refused(text: str) -> None:
    with pytest.raises(RequirementError, match="is not supported"):
        parse_any(text)


@pytest.mark.parametrize("text", _examples("gpu"))
def test_gpu_examples_are_read_and_printed(text: str) -> None:
    asked = parse_gpu(text)
    assert asked is not None
    assert parse_gpu(print_gpu(asked)) == asked


@pytest.mark.parametrize("text", _examples("gpu-refused"))
def test_gpu_contradictions_are_refused(text: str) -> None:
    with pytest.raises(RequirementError, match=f"^{BAD_GPU}: "):
        parse_gpu(text)


def test_a_gpu_requirement_is_shown_as_the_guide_says() -> None:
    ((text, shown),) = re.findall(r"`(num=\d+)` as `(num=[^`]*)`", GUIDE)
    asked = parse_gpu(text)
    assert asked is not None
    assert print_gpu(asked) == shown


def test_combined_requirements_are_as_the_guide_shows_them() -> None:
    rows = _rows(r"\| (?:`([^`]*)` )?\| (?:`([^`]*)` )?\| `(\{?select\[[^`]*)` \|")
    assert len(rows) == 6
    for job, queue, text in rows:
        assert combine_texts(job, queue).text == text


def test_the_old_form_means_what_the_guide_says() -> None:
    rows = _rows(r"\| `([^`]*:[^`]*)` \| `(select\[[^`]*)` \|")
    assert len(rows) == 2
    for old, meaning in rows:
        assert print_requirement(parse(old)) == meaning


def test_errors_read_as_the_guide_shows_them() -> None:
    rows = _rows(r"\| `([^`]*)` \| `(Bad [^`]*)` \|")
    assert len(rows) == 3
    for text, answer in rows:
        with pytest.raises(RequirementError) as caught:
            parse_any(text)
        assert caught.value.text == answer


def test_every_row_of_the_spans_is_read() -> None:
    table = GUIDE.partition("| span | |\n")[2].partition("\n\n")[0]
    spans = [span for row in table.splitlines()[1:] for span in re.findall(r"`([^`]*)`", row.split(" | ")[0])]
    assert len(spans) == 11
    for span in spans:
        assert parse(f"span[{span}]").span is not None


def test_every_option_of_the_gpu_table_is_one() -> None:
    table = GUIDE.partition("| option | says |\n")[2].partition("\n\n")[0].replace("\\|", "|")
    options = [each for row in table.splitlines()[1:] for each in re.findall(r"`([^`]*)`", row.split(" | ")[0])]
    assert len(options) == 21
    for option in options:
        key, _, values = option.partition("=")
        for value in values.split("|"):
            assert parse_gpu(f"{key}={value}") is not None
