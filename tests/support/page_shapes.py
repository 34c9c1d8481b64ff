"""The shapes in which a page is looked at: on a screen and on a telephone, light and dark."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.browser import Browser

SHAPES = {  # each differs from the one before in one thing, so that charts are drawn anew once
    "1280-light": (1280, 900, False),
    "1280-dark": (1280, 900, True),
    "390-dark": (390, 844, True),
    "390-light": (390, 844, False),
}
LONGEST_WORD = 12
"""What is longer may be broken where it does not fit."""
_BROKEN = """
const found = [], range = document.createRange();
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (texts.nextNode()) {
  const node = texts.currentNode, above = node.parentElement;
  if (above.closest("pre, code, textarea, script, .hidden, svg") || !above.checkVisibility()) continue;
  for (const word of node.data.matchAll(/[^\\s-]+/g)) {
    if (word[0].length > arguments[0]) continue;
    range.setStart(node, word.index);
    range.setEnd(node, word.index + word[0].length);
    if (new Set([...range.getClientRects()].map((each) => Math.round(each.top))).size > 1) found.push(word[0]);
  }
}
return found;
"""
_LOOKS = "return [innerWidth, matchMedia('(prefers-color-scheme: dark)').matches]"
_CHARTS = "const all = [...document.querySelectorAll('.uplot')];"
_MARK = f"{_CHARTS} all.forEach((each) => {{ each.dataset.old = 1 }}); return all.length"
_LEFT = f"{_CHARTS} return [all.filter((each) => each.dataset.old).length, all.length]"


def in_all_shapes(window: Browser, page: str) -> Iterator[str]:
    """The name of each, while the page has it: nothing sticks out, no word is broken. It has the first in the end."""
    for shape, (width, height, dark) in SHAPES.items():
        _reshape(window, width, height, dark=dark)
        assert window.run("return document.documentElement.scrollWidth") <= width, f"{page} is wider than {width}"
        broken = window.run(_BROKEN, LONGEST_WORD)
        assert broken == [], f"{page} breaks words at {width}: {broken}"
        yield shape
    _reshape(window, *SHAPES["1280-light"][:2], dark=False)


def _reshape(window: Browser, width: int, height: int, *, dark: bool) -> None:
    """Change the shape and wait until charts, which are drawn anew a moment later, fit it."""
    before, count = window.run(_LOOKS), window.run(_MARK)
    window.shape(width, height, dark=dark)
    if count and window.run(_LOOKS) != before:
        window.until(lambda: (found := window.run(_LEFT))[0] == 0 and found[1] >= count, "charts are not drawn anew")
