"""Every transcript of the documents is an example that is run, or says why it is not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.doc_examples import PAGES, Example, commands, examples, is_as_told

LEAST_RUN = 40
MOST_NOT_RUN = 6


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_every_transcript_is_marked(page: Path) -> None:
    text = page.read_text()
    marked = "".join(found[1] for found in re.finditer(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    typed = re.findall(r"^ *\$ .*$", text, re.MULTILINE)
    assert [line for line in typed if line not in marked] == []
    assert len(list(examples(page))) == text.count("```console\n")


def test_nearly_all_of_them_are_run() -> None:
    found: list[Example] = [each for page in PAGES for each in examples(page)]
    left_out = [each for each in found if each.why_not_run]
    assert len(left_out) <= MOST_NOT_RUN, [str(each) for each in left_out]
    assert len(found) - len(left_out) >= LEAST_RUN


def test_a_transcript_is_taken_apart() -> None:
    assert list(commands("$ gsub hostname\nJob <1> ...\n$ true\n")) == [("gsub hostname", "Job <1> ..."), ("true", "")]


@pytest.mark.parametrize(
    ("told", "printed", "same"),
    [
        ("Job <1> is submitted.", "Job <27> is submitted.\n", True),
        ("Job <1> is submitted.", "Job <27> is not submitted.\n", False),
        ("r1m  4.7  19%  22.7G\n", "r1m 12.25   3%   512M", True),
        ("16  2  2", "16 2", False),
        ("16  2  -", "16 2 3", False),
        ("Sat Nov 21 07:30:34", "Mon Feb  1 23:59:00", True),
        ("first\n...\nlast", "first\nsomething\nelse\nlast", True),
        ("first\n...\nlast", "first\nsomething\n", False),
        ("<select[\n  ngpus>0]>", "<select[ngpus>0]>", True),
        ("PEND", "RUN", False),
    ],
)
def test_only_what_may_differ_may_differ(told: str, printed: str, same: bool) -> None:
    assert is_as_told(told, printed) is same
