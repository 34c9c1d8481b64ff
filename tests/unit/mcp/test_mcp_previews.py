"""What an assistant prepares is done once, when it is confirmed in time; time is an argument."""

from __future__ import annotations

import pytest

from gsched.base.errors import BadRequest, Conflict
from gsched.mcp.action_previews import MOST_KEPT, PATIENCE_S, ActionPreviews
from gsched.mcp.mcp_server import allowed_of


class Desk:
    """Previews with a clock that stands still, and what was done."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.done: list[str] = []
        self.previews = ActionPreviews(lambda: self.now)

    def add(self, name: str = "one") -> str:
        def do() -> str:
            self.done.append(name)
            return f"{name} is done"

        return self.previews.add(f"shall {name} be done?", do)


def test_it_is_done_once_and_told_again() -> None:
    desk = Desk()
    word = desk.add()
    assert desk.done == [] and desk.previews.told(word) == "shall one be done?"
    assert [desk.previews.confirm(word) for _ in range(2)] == ["one is done"] * 2
    assert desk.done == ["one"] and desk.previews.told(word) == ""


def test_words_differ_and_confirm_their_own_action() -> None:
    desk = Desk()
    words = [desk.add(name) for name in ("one", "two", "three")]
    assert len(set(words)) == 3
    desk.previews.confirm(words[1])
    assert desk.done == ["two"]


def test_nothing_is_confirmed_by_a_word_that_was_never_given_or_is_dropped() -> None:
    desk = Desk()
    dropped = desk.add()
    desk.previews.drop(dropped)
    for word in ("", "0" * 16, dropped):
        assert desk.previews.told(word) == ""
        with pytest.raises(BadRequest, match="confirms nothing"):
            desk.previews.confirm(word)
    assert desk.done == []


def test_too_late_is_too_late() -> None:
    desk = Desk()
    early, late = desk.add("early"), desk.add("late")
    desk.now += PATIENCE_S
    desk.previews.confirm(early)
    desk.now += 1
    assert desk.previews.told(late) == ""
    with pytest.raises(BadRequest, match="not confirmed within"):
        desk.previews.confirm(late)
    assert desk.previews.confirm(early) == "early is done", "what came of it is told later, too"


def test_the_oldest_are_forgotten() -> None:
    desk = Desk()
    words = [desk.add(str(number)) for number in range(MOST_KEPT + 1)]
    with pytest.raises(BadRequest):
        desk.previews.confirm(words[0])
    assert desk.previews.confirm(words[1]) == "1 is done"


def test_what_fails_may_be_tried_again() -> None:
    outcomes: list[str | None] = [None, "now"]

    def do() -> str:
        if (outcome := outcomes.pop(0)) is None:
            raise Conflict("not now")
        return outcome

    previews = ActionPreviews(lambda: 0.0)
    word = previews.add("it", do)
    with pytest.raises(Conflict):
        previews.confirm(word)
    assert previews.confirm(word) == "now"


@pytest.mark.parametrize(
    ("text", "words"), [("", ()), ("kill", ("kill",)), (" submit , kill,submit,", ("submit", "kill"))]
)
def test_words_of_allow(text: str, words: tuple[str, ...]) -> None:
    assert allowed_of(text) == words


@pytest.mark.parametrize("text", ["all", "submit;kill", "Submit", "kill,-x"])
def test_other_words_of_allow_are_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="--allow"):
        allowed_of(text)
