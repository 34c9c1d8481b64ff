"""#INCLUDE and #if time(...): which lines of a file count."""

from __future__ import annotations

from pathlib import Path

import pytest
from config_texts import BASE, Checked

from gsched.config.configuration import check_texts, load
from gsched.config.grammar.windows import parse_windows

NOON, NIGHT = 12 * 60, 2 * 1440 + 23 * 60
TIMED = """\
#if time(8:00-18:00)
Begin Queue
QUEUE_NAME = day
End Queue
#elif time(18:00-22:00 5:22:00-1:8:00)
Begin Queue
QUEUE_NAME = evening
End Queue
#else
Begin Queue
QUEUE_NAME = night
#if time(22:00-24:00)
PRIORITY = 7
#endif
End Queue
#endif
"""


def queues(text: str, minute: int, **files: str) -> Checked:
    texts = {**BASE, **files, "lsb.queues": BASE["lsb.queues"] + text}
    loaded = check_texts("/conf", texts, minute=minute)
    return Checked(loaded.config, loaded.problems)


@pytest.mark.parametrize(
    ("minute", "name", "priority"),
    [
        (NOON, "day", 1),
        (20 * 60, "evening", 1),
        (NIGHT, "night", 7),
        (60 + 24 * 60, "evening", 1),
        (3 * 1440 + 60, "night", 1),
    ],
)
def test_the_branch_of_the_time_counts(minute: int, name: str, priority: int) -> None:
    checked = queues(TIMED, minute)
    assert checked.errors == []
    (found,) = [queue for queue in checked.config.queues.values() if queue.name != "normal"]
    assert (found.name, found.priority) == (name, priority)


def test_what_the_conditions_came_to_is_kept() -> None:
    config = queues(TIMED, NOON).config
    assert config.time_conditions[0] == (parse_windows("8:00-18:00"), True)
    assert [held for _, held in config.time_conditions] == [True, True, False]  # it is a Sunday


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("#if time(8:00-18:00)\n", "lsb.queues:5: #if has no #endif"),
        ("#endif\n", "lsb.queues:5: #endif without #if"),
        ("#else\n", "lsb.queues:5: #else without #if"),
        ("#if time(8-9)\n#else\n#else\n#endif\n", "lsb.queues:7: #else behind the #else of the #if at line 5"),
        ("#if time(25:00-9:00)\n#endif\n", "lsb.queues:5: #if time(25:00-9:00): "),
        ("#if time()\n#endif\n", "lsb.queues:5: #if time(): a time window is missing"),
        (
            "#if time(8:00-9:00 EDT)\n#endif\n",
            "lsb.queues:5: #if time(8:00-9:00 EDT): time zones are not supported",
        ),
        ("#if (1)\n#endif\n", "lsb.queues:5: #if (1): not supported yet; #if time(WINDOW ...) is"),
        ("#INCLUDE <x>\n", 'lsb.queues:5: #INCLUDE <x>: a file is named in double quotes, #INCLUDE "FILE"'),
        ('#INCLUDE "gone"\n', "lsb.queues:5: #INCLUDE: there is no file gone"),
        ('#INCLUDE "lsb.queues"\n', "files include each other in a circle: lsb.queues includes lsb.queues"),
    ],
)
def test_a_directive_that_cannot_be_used(text: str, error: str) -> None:
    errors = queues(text, NOON).errors
    assert errors and error in "\n".join(errors)


def test_an_included_file_counts_in_its_place_and_is_named_by_its_problems() -> None:
    included = "QUEUE_NAME = other\nPRIORITY = 3\n"
    checked = queues('Begin Queue\n#INCLUDE "queues.other"\nEnd Queue\n', NOON, **{"queues.other": included})
    assert checked.errors == [] and checked.config.queues["other"].priority == 3
    wrong = {"queues.other": included + "NICE = x\n"}
    checked = queues('Begin Queue\n#INCLUDE "queues.other"\nEnd Queue\n', NOON, **wrong)
    assert checked.errors == ["queues.other:3: NICE: 'x' is not a whole number from -20 to 20"]


def test_files_are_included_by_their_path_and_change_the_fingerprint(tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    conf.mkdir()
    for name, text in BASE.items():
        (conf / name).write_text(text)
    other = tmp_path / "elsewhere"
    (conf / "lsb.queues").write_text(BASE["lsb.queues"] + f'#INCLUDE "{other}"\n')
    other.write_text("Begin Queue\nQUEUE_NAME = a\nEnd Queue\n")
    first = load(str(conf)).required()
    other.write_text("Begin Queue\nQUEUE_NAME = b\nEnd Queue\n")
    second = load(str(conf)).required()
    assert ("a" in first.queues, "b" in second.queues) == (True, True)
    assert first.digest != second.digest


def test_a_file_that_cannot_be_read_is_named_with_the_line_that_names_it(tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    conf.mkdir()
    for name, text in BASE.items():
        (conf / name).write_text(text)
    (conf / "folder").mkdir()
    (conf / "lsb.queues").write_text('#INCLUDE "gone"\n#INCLUDE "folder"\n' + BASE["lsb.queues"])
    assert [str(problem) for problem in load(str(conf)).problems] == [
        f"{conf}/lsb.queues:1: #INCLUDE: {conf}/gone: cannot be read: No such file or directory",
        f"{conf}/lsb.queues:2: #INCLUDE: {conf}/folder: cannot be read: Is a directory",
    ]


def test_lsf_conf_has_no_directives() -> None:
    loaded = check_texts("/conf", {**BASE, "lsf.conf": BASE["lsf.conf"] + '#INCLUDE "x"\n'})
    assert "#INCLUDE and #if blocks are not supported yet here" in str(loaded.problems[0])
