"""Each use that gsched itself makes of message boxes has a box of its own, and the documentation names them all."""

from __future__ import annotations

import re
from pathlib import Path

from gsched.model.views import message_boxes

PAGE = Path(__file__).parents[3] / "docs" / "commands.md"


def test_each_has_its_own_and_stands_in_the_table() -> None:
    boxes = {name: value for name, value in vars(message_boxes).items() if name.endswith("_BOX") and name != "MOST_BOX"}
    assert len(set(boxes.values())) == len(boxes) > 6 and max(boxes.values()) <= message_boxes.MOST_BOX
    section = PAGE.read_text("utf-8").partition("## gpost, gread")[2].partition("\n## ")[0]
    assert sorted(map(int, re.findall(r"^\| ([0-9]+) \|", section, re.MULTILINE))) == sorted(boxes.values())
