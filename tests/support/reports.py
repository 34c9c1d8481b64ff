"""What jobs have printed into a file of -o, without the reports of the scheduler that stand in it as well."""

from __future__ import annotations

import re

_RULE = r"(?:\n-{60}\n)"
_ABOVE = re.compile(_RULE + r"?Sender: LSF System <.*?\nThe output \(if any\) follows:\n *\n", re.DOTALL)
_WAITING = re.compile(_RULE + r"?The report on job <[^>]*> stands here when the job has ended\.\n?(?: *\n)*")
_BELOW = re.compile(
    _RULE + r"Sender: LSF System <.*?\nThe output \(if any\) is above this job summary\.\n\n", re.DOTALL
)
_ELSEWHERE = re.compile(r"\n\n\nPS:\n\nRead file <[^>]*> for stderr output of this job\.\n")


def printed_in(text: str) -> str:
    """What was printed, by all jobs that share the file; also while they run."""
    text = _BELOW.sub("", _WAITING.sub("", text))
    first, *pieces = _ABOVE.split(text)
    return first + "".join(_ELSEWHERE.sub("\n", piece).removesuffix("\n") for piece in pieces)


def has_report(text: str) -> bool:
    """Whether a report is there, and whole."""
    return bool((_ABOVE.search(text) or _BELOW.search(text)) and "\nResource usage summary:\n" in text)
