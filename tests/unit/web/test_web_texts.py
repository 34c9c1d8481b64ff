"""Texts of pages: every key that a template uses is there, in each language, with the same blanks."""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from pathlib import Path

import pytest
from served_pages import Pages

import gsched.web
from gsched.model.jobs.notice import EVENTS
from gsched.web.administration.hosts_and_queues import AGENT_STATES, DONE
from gsched.web.job_pages.job_deeds import ACTIONS, SAID_OF_JOBS
from gsched.web.shown.gpu_tiles import TileKind
from gsched.web.shown.job_form import AFTER
from gsched.web.shown.job_list import GROUPS
from gsched.web.texts.catalogue import LANGUAGES, words_for
from gsched.web.texts.english import ENGLISH
from gsched.web.texts.korean import KOREAN

TEMPLATES = Path(gsched.web.__file__).parent / "templates"


def blanks(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_the_languages_say_the_same() -> None:
    for texts in LANGUAGES.values():
        assert texts.keys() == ENGLISH.keys()
        assert {key for key in ENGLISH if blanks(texts[key]) != blanks(ENGLISH[key])} == set()
    assert not [key for key, text in KOREAN.items() if text == ENGLISH[key] and len(text) > 4 and "{" not in text]


COUNTED = {
    "admin.most_hosts": "there is a table of hundreds",
    "config.line": "the number of one line",
    "search.line": "the number of one line",
    "jobs.array": "no noun follows it",
    "jobs.failed": "no noun follows it",
    "jobs.running": "no noun follows it",
    "search.found": "no noun follows it",
}
"""Texts with a number that are right for one, too, and why."""


def test_of_one_thing_the_singular_is_said() -> None:
    missing = {key for key, text in ENGLISH.items() if "n" in blanks(text) and f"{key}.one" not in ENGLISH}
    assert missing == COUNTED.keys()
    assert words_for("en")("gpu.shared", n=1) == "one job" and words_for("en")("gpu.shared", n=2) == "2 jobs"


def test_templates_use_all_texts_and_no_others() -> None:
    source = "".join(path.read_text() for path in sorted(TEMPLATES.glob("*.html")))
    used = set(re.findall(r"""\bt\(["']([\w.]+)["'](?! ~)""", source))
    used |= {
        key
        for pair in re.findall(r"""["'](job\.\w+|gpu\.\w+)["'] if \w+[^"']* else ["']([\w.]+)["']""", source)
        for key in pair
    }
    used |= {f"gpu.kind.{kind}" for kind in TileKind} | {f"jobs.group.{group}" for group in GROUPS}
    used |= {f"{what}.{action.partition('_')[0]}" for action in ACTIONS for what in ("deed", "said")} | {
        "said.submitted"
    }
    used |= {f"done.{what}" for what in SAID_OF_JOBS}
    used |= {f"after.{condition}" for condition in AFTER} | {f"event.{event}" for event in EVENTS}
    used |= {f"agent.{state}" for state in AGENT_STATES}
    used |= {"load.use", "load.held"}  # names of lines in charts
    used |= {f"admin.said.{what}" for what in DONE} | {"config.error", "config.note"}
    assert used <= ENGLISH.keys()
    assert {key for key in ENGLISH if key not in used and not key.endswith(".one")} == set()


@pytest.mark.parametrize(
    ("accepted", "language"),
    [
        ("", "en"),
        ("ko-KR,ko;q=0.9,en;q=0.8", "ko"),
        ("de, ko", "ko"),
        ("en-US,ko", "en"),
        ("x" * 5000, "en"),
        (",;", "en"),
    ],
)
def test_the_browser_says_which_language(accepted: str, language: str) -> None:
    assert words_for(accepted).language == language


def test_pages_are_in_the_readers_language(new_pages: Callable[..., Pages]) -> None:
    pages = new_pages().entered()
    for path in ("/", "/jobs", "/new", "/queues"):
        text = pages.get(path, **{"accept-language": "ko"}).text
        assert '<html lang="ko">' in text and "로그아웃" in text and "Log out" not in text
    assert "Log out" in pages.get("/", **{"accept-language": "en"}).text
