"""`gadmin estimates`: how far off it was what was said of starts, as lines for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from gsched.policy.future.start_estimate_errors import EstimateErrors, median_s, within_minute


def estimate_errors_lines(found: EstimateErrors) -> Iterator[str]:
    """Without newlines."""
    yield f"Jobs that had to wait: {found.waited}; estimated while they waited: {len(found.inside)}"
    if found.unsaid:
        yield (
            f"Of {found.unsaid} nothing is kept: they waited for something else than a place first, or were submitted "
            "before estimates were kept"
        )
    if not (found.inside or found.plan_off_s):
        return
    yield f"Started by their p90: {_percent(found.share_inside)} (85 to 95 % is the goal)"
    yield f"{'judged by':16} {'jobs':>7} {'median error':>12} {'within 1 minute':>15}"
    for name, off_s in _ways(found):
        error = median_s(off_s)
        shown = "-" if error is None else f"{error:.0f} s"
        yield f"{name:16} {len(off_s):7} {shown:>12} {_percent(within_minute(off_s)):>15}"


def _ways(found: EstimateErrors) -> tuple[tuple[str, Sequence[float]], ...]:
    return (
        ("such jobs (p50)", found.off_s),
        ("the mean wait", found.mean_off_s),
        ("the plan", found.plan_off_s),
        ("run limits alone", found.limit_off_s),
    )


def estimate_errors_record(found: EstimateErrors) -> dict[str, int | float | None]:
    """The figures by name. Times in seconds."""
    record: dict[str, int | float | None] = {
        "waited": found.waited,
        "not_kept": found.unsaid,
        "estimated": len(found.inside),
        "inside_p90": found.share_inside,
        "median_error_s": median_s(found.off_s),
        "within_minute": within_minute(found.off_s),
        "mean_wait_median_error_s": median_s(found.mean_off_s),
        "mean_wait_within_minute": within_minute(found.mean_off_s),
    }
    for name, off_s in (("plan", found.plan_off_s), ("run_limits", found.limit_off_s)):
        record |= {
            f"{name}_jobs": len(off_s),
            f"{name}_median_error_s": median_s(off_s),
            f"{name}_within_minute": within_minute(off_s),
        }
    return record


def estimate_errors_json(found: EstimateErrors) -> str:
    """One object, without a newline behind it."""
    return json.dumps(estimate_errors_record(found), indent=1)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"
