"""`gadmin estimates`: how far off estimates of starts were, as lines for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator

from gsched.policy.future.past_waits import EstimateErrors


def estimate_errors_lines(found: EstimateErrors) -> Iterator[str]:
    """Without newlines."""
    yield f"Jobs that had to wait: {found.waited}; estimated when they were submitted: {len(found.inside)}"
    if not found.inside:
        return
    yield f"Started by their p90: {_percent(found.share_inside)} (85 to 95 % is the goal)"
    yield f"{'judged by':16} {'median error':>12} {'within 1 minute':>15}"
    for name, off_s in (("such jobs (p50)", found.off_s), ("the mean wait", found.mean_off_s)):
        yield f"{name:16} {found.median(off_s) or 0.0:10.0f} s {_percent(found.within_minute(off_s)):>15}"


def estimate_errors_json(found: EstimateErrors) -> str:
    """One object, without a newline behind it. Times in seconds."""
    return json.dumps(
        {
            "waited": found.waited,
            "estimated": len(found.inside),
            "inside_p90": found.share_inside,
            "median_error_s": found.median(found.off_s),
            "within_minute": found.within_minute(found.off_s),
            "mean_wait_median_error_s": found.median(found.mean_off_s),
            "mean_wait_within_minute": found.within_minute(found.mean_off_s),
        },
        indent=1,
    )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"
