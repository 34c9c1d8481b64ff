"""The grammar: sections, tables, settings, assignments, and what is said about text that does not fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.config.grammar.findings import MAX_PROBLEMS_PER_FILE, Findings, SourcePlace, show
from gsched.config.grammar.sections import (
    MAX_FILE_BYTES,
    MAX_LINES,
    decode,
    read_assignments,
    read_entries,
    read_sections,
    read_table,
)


def parse(text: str) -> tuple[list, list[str]]:
    findings = Findings()
    sections = read_sections("f", text, findings)
    return sections, [str(problem) for problem in findings.problems]


def table(text: str) -> tuple[list[dict[str, str]], list[str]]:
    findings = Findings()
    [section] = read_sections("f", text, findings)
    read = read_table(section, findings)
    rows = [] if read is None else [{key: cell.text for key, cell in row.cells.items()} for row in read.rows]
    return rows, [str(problem) for problem in findings.problems]


def assignments(text: str) -> tuple[dict[str, str], list[str]]:
    findings = Findings()
    entries = read_assignments("f", text, findings)
    return {entry.key: entry.value for entry in entries}, [str(problem) for problem in findings.problems]


def test_keywords_in_any_case_comments_and_blank_lines():
    sections, problems = parse("# top\nBEGIN Host # a comment\n\n  a b\n# c\nend HOST\n\nbegin X\nEnd X\n")
    assert not problems
    assert [(s.name, s.at.line, [(b.text, b.at.line) for b in s.body]) for s in sections] == [
        ("Host", 2, [("a b", 4)]),
        ("X", 8, []),
    ]


def test_two_sections_of_one_name_are_both_read():
    sections, problems = parse("Begin R\na\nEnd R\nBegin R\nb\nEnd R\n")
    assert not problems
    assert [s.body[0].text for s in sections] == ["a", "b"]


def test_continued_lines_are_one_line_at_the_first_number():
    sections, problems = parse("Begin Q\nX = a \\\n  b\\\nc\nY = 1\nEnd Q\n")
    assert not problems
    assert [(b.text, b.at.line) for b in sections[0].body] == [("X = a b c", 2), ("Y = 1", 5)]


def test_a_backslash_in_a_comment_joins_nothing():
    sections, _ = parse("Begin Q\na # b \\\nc\nEnd Q\n")
    assert [b.text for b in sections[0].body] == ["a", "c"]


def test_windows_line_ends_and_no_break_spaces_are_blanks():
    rows, problems = table("Begin R\r\nA \xa0 B\r\n1\xa0\xa02\r\nEnd R\r\n")
    assert not problems
    assert rows == [{"a": "1", "b": "2"}]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Begin A\nx\n", ["f:1: section A has no End A"]),
        ("x\ny\n", ["f:1: 'x' stands outside any section (Begin NAME ... End NAME)"]),
        ("End A\n", ["f:1: End A without a Begin"]),
        ("Begin\nx\nEnd\n", ["f:1: Begin must be followed by the name of one section"]),
        ("Begin A B\nEnd A\n", ["f:1: Begin must be followed by the name of one section"]),
        ("Begin A\n\nEnd B\n", ["f:3: 'End B' closes section A of f:1; expected End A"]),
        ("Begin A\nBegin B\nEnd B\n", ["f:2: Begin inside section A, which has no End A (it begins at f:1)"]),
        ("x\nEnd A\nBegin B\nEnd B\ny\n", ["f:1:", "f:5:"]),
        (
            "Begin A\nx \\",
            ["f:2: the last line ends in a backslash but nothing follows", "f:1: section A has no End A"],
        ),
        (
            '#INCLUDE "/etc/x"\n',
            ['f:1: #INCLUDE "/etc/x": #INCLUDE and #if blocks are not supported yet here'],
        ),
        ("#if time(18:30-19:30)\n#else\n#endif\n", ["f:1: #if time(", "f:2: #else", "f:3: #endif"]),
    ],
)
def test_broken_sections_are_named_with_their_line(text, expected):
    problems = parse(text)[1]
    assert len(problems) == len(expected), problems
    assert all(problem.startswith(start) for problem, start in zip(problems, expected, strict=True)), problems


def test_ordinary_comments_are_no_directives():
    assert parse('# if you include "x", say so\n#include nothing\n#else what\n')[1] == []


def test_values_in_parentheses_may_hold_blanks_and_parentheses():
    rows, problems = table("Begin R\nA B C\n1 (two (and) words) ()\n([a] [b]) - !\nEnd R\n")
    assert not problems
    assert rows == [{"a": "1", "b": "two (and) words", "c": ""}, {"a": "[a] [b]", "b": "-", "c": "!"}]


def test_a_comment_after_the_keyword_line_is_no_column():
    rows, problems = table("Begin R\n\nA B # Keywords\n1 2\n\nEnd R\n")
    assert (rows, problems) == ([{"a": "1", "b": "2"}], [])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("1", "f:3: the line has 1 values for 2 columns (A B)"),
        ("1 2 3", "f:3: the line has 3 values for 2 columns (A B)"),
        ("1 (2", "f:3: '(' is not closed in '(2'"),
        ("(1)2 3", "f:3: a blank is missing before '2 3'"),
    ],
)
def test_a_row_that_does_not_fit_is_named_and_the_next_one_read(line, expected):
    rows, problems = table(f"Begin R\nA B\n{line}\n8 9\nEnd R\n")
    assert problems == [expected]
    assert rows == [{"a": "8", "b": "9"}]


def test_a_column_named_twice_and_settings_in_a_table():
    assert table("Begin R\nA a\n1 2\nEnd R\n") == ([], ["f:2: column a is named twice"])
    no_head = "f:2: the first line of section R must name the columns: () is no name of a column"
    assert table("Begin R\nmips Boolean () () (MIPS architecture)\nEnd R\n") == ([], [no_head])
    assert table("Begin R\nA = 1\nEnd R\n")[1] == ["f:2: section R is a table: its first line must name the columns"]


def test_settings_are_split_at_the_first_equals_sign():
    findings = Findings()
    [section] = read_sections("f", "Begin Q\nA = b=c d\nE=\nno value\n= x\nEnd Q\n", findings)
    entries = read_entries(section, findings)
    assert [(e.key, e.value, e.at.line) for e in entries] == [("A", "b=c d", 2), ("E", "", 3)]
    assert [str(p) for p in findings.problems] == [
        "f:4: 'no value' is not of the form KEY = value",
        "f:5: '= x' is not of the form KEY = value",
    ]


def test_assignments_with_quotes_and_comments():
    values, problems = assignments("A=1 # one\n#B=2\nC=\"a b # c\"\nD='x'\nE=/a#b\n F = y \n")
    assert not problems
    assert values == {"A": "1", "C": "a b # c", "D": "x", "E": "/a#b", "F": "y"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A=a b\n", "f:1: A: the value must be one word or stand in one pair of quotes"),
        ('A="a\n', "f:1: A: the value must be one word or stand in one pair of quotes"),
        ('A="a"b"\n', "f:1: A: the value must be one word or stand in one pair of quotes"),
        ("export A=1\n", "f:1: 'export A=1' is not of the form NAME=VALUE"),
        ("Begin X\n", "f:1: 'Begin X' is not of the form NAME=VALUE"),
    ],
)
def test_assignments_that_cannot_be_read(text, expected):
    assert assignments(text)[1] == [expected]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a\nb\0c\n", "f:2: not a text file (it holds NUL bytes)"),
        (b"a\n\nb\xff\n", "f:3: not UTF-8 text"),
        (b"x" * (MAX_FILE_BYTES + 1), "f: the file is larger than 4 MiB"),
        (b"\n" * (MAX_LINES + 1), f"f: the file has more than {MAX_LINES} lines"),
    ],
)
def test_files_that_are_no_text_get_one_problem(data, expected):
    findings = Findings()
    assert decode("f", data, findings) is None
    assert [str(problem) for problem in findings.problems] == [expected]


def test_problems_of_one_file_are_bounded_and_the_cut_is_an_error():
    findings = Findings()
    for line in range(1, MAX_PROBLEMS_PER_FILE + 50):
        findings.note(SourcePlace("f", line), "n")
    assert len(findings.problems) == MAX_PROBLEMS_PER_FILE + 1
    assert findings.problems[-1].severity == "error"
    findings.error(SourcePlace("g", 1), "e")
    assert findings.problems[-1].path == "g"


def test_shown_text_is_one_printable_line():
    assert show("a\x1b[31m\n\u202eb") == "a?[31m??b"
    assert show("x" * 100) == "x" * 60 + "..."


_LINES = st.lists(
    st.one_of(
        st.sampled_from(
            ["Begin A", "End A", "Begin", "End", "A B", "(a", "()", "\\", "a = b", '#INCLUDE "x"', "1 (2) 3"]
        ),
        st.text(max_size=20),
    ),
    max_size=20,
)


@given(_LINES)
def test_no_text_makes_the_grammar_raise(lines):
    findings = Findings()
    text = "\n".join(lines)
    for section in read_sections("f", text, findings):
        read_table(section, findings)
        read_entries(section, findings)
    read_assignments("f", text, findings)
    count = text.count("\n") + 1
    assert all(0 <= problem.line <= count and "\n" not in problem.text for problem in findings.problems)
