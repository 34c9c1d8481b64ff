"""docs/lsf-coverage.md says of each name of LSF what the code does with it; none is unknown to the code."""

from __future__ import annotations

import re

import pytest
from config_texts import check

from gsched.base.errors import BadRequest
from gsched.cli.commands.job_control import gresize
from gsched.cli.registry import ALIASES, COMMANDS, table_of
from gsched.config.config_folder import NOT_READ
from gsched.config.grammar import lsf_names
from gsched.dialect.options import REASONS
from tests.support.lsf_coverage.asked_code import Standing
from tests.support.lsf_coverage.coverage_page import PAGE, answers, option_names, parameter_names, share, text

pytestmark = pytest.mark.sources


def test_the_page_is_what_the_code_does() -> None:
    assert PAGE.read_text() == text(), "run: make lsf-coverage"
    print(share())


def test_each_name_that_is_not_read_says_why() -> None:
    silent = [
        (where, name)
        for where, each in answers().items()
        for name, answer in each.items()
        if answer.standing is not Standing.SAME and not answer.reason
    ]
    assert silent == []


def test_no_reason_says_that_a_command_is_not_there_that_is() -> None:
    reasons = {answer.reason for each in answers().values() for answer in each.values()} | set(NOT_READ.values())
    absent = {word for reason in reasons for word in re.findall(r"there is no (\w+)", reason)}
    assert "bconf" in absent and absent & (set(ALIASES) | set(COMMANDS)) == set()


def test_each_name_that_the_code_knows_of_lsf_is_in_the_list() -> None:
    listed = {where: {name.casefold() for name in names} for where, names in parameter_names().items()}
    for where, names in {
        "lsf.conf": lsf_names.CONF,
        "lsf.cluster": lsf_names.CLUSTER,
        "lsb.params": lsf_names.PARAMS,
        "lsb.queues": lsf_names.QUEUE,
        "lsb.applications": lsf_names.APPLICATION,
    }.items():
        assert [name for name in sorted(names) if name.casefold() not in listed[where]] == []


def test_each_command_with_a_name_of_lsf_is_in_the_list() -> None:
    assert sorted(set(ALIASES) - set(option_names())) == []


def test_an_option_is_never_refused_without_a_reason() -> None:
    assert [name for name, why in REASONS.items() if len(why.split()) < 2] == []
    told = [(name, each.name, each.refused) for name in ALIASES for each in table_of(name).options if each.refused]
    assert told and [each for each in told if len(each[-1].split()) < 2 or "supported" in each[-1]] == []


@pytest.mark.parametrize("where", [where for where in parameter_names() if "/" in where and "lsb.service" not in where])
def test_no_section_of_lsf_is_unknown(where: str) -> None:
    name, section = where.split("/")
    columns = " ".join(parameter_names()[where])
    name = "lsf.cluster.c1" if name == "lsf.cluster" else name
    words = f"Begin {section}\n{columns}\n{' '.join('x' for _ in columns.split())}\nEnd {section}\n"
    told = [*check({name: words}).errors]
    assert [each for each in told if "unknown" in each and "unknown host" not in each] == []


def test_an_option_of_lsf_is_never_unknown() -> None:
    for command, names in option_names().items():
        words = gresize.WORDS if command == "bresize" else ()
        for name in (each for each in names if command in ALIASES and each not in words):
            try:
                table_of(command).read([f"-{name}", "x"])
            except BadRequest as error:
                assert "unknown option" not in error.text  # refused by name, or its value is wrong
