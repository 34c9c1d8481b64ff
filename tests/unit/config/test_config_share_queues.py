"""FAIRSHARE_QUEUES and DISPATCH_ORDER: which queues one FAIRSHARE divides, and what cannot be."""

from __future__ import annotations

import pytest
from config_texts import BASE, Checked, check

SHARES = "FAIRSHARE = USER_SHARES[[ann, 2] [default, 1]]"


def checked(*lines: str, short: str = "", priorities: tuple[int, int, int] = (30, 40, 50)) -> Checked:
    """Queues normal with these lines (from line 4 on), short, and other."""
    normal, of_short, other = priorities
    text = [
        *("Begin Queue", "QUEUE_NAME = normal", f"PRIORITY = {normal}", *lines, "End Queue"),
        *("Begin Queue", "QUEUE_NAME = short", f"PRIORITY = {of_short}", short, "End Queue"),
        *("Begin Queue", "QUEUE_NAME = other", f"PRIORITY = {other}", "End Queue"),
    ]
    return check({**BASE, "lsb.queues": "\n".join(line for line in text if line)})


def test_queues_of_a_set_have_the_shares_and_factors_of_the_first() -> None:
    found = checked(SHARES, "FAIRSHARE_QUEUES = short", "RUN_JOB_FACTOR = 7")
    assert found.errors == found.notes == []
    assert found.config is not None
    normal, short, other = (found.config.queues[name] for name in ("normal", "short", "other"))
    assert normal.share_queues == short.share_queues == ("normal", "short")
    assert short.fairshare == normal.fairshare != ()
    assert short.factors == normal.factors == {"run_job": 7.0}
    assert (normal.share_owner, short.share_owner, other.share_owner) == ("normal", "normal", "other")
    assert not short.serves_queues_in_order
    assert other.fairshare is None and other.share_queues == ()


def test_with_an_order_of_queues_others_may_come_in_between() -> None:
    priorities = (30, 50, 40)
    found = checked(SHARES, "FAIRSHARE_QUEUES = short", "DISPATCH_ORDER = queue", priorities=priorities)
    assert found.errors == []
    assert found.config is not None and found.config.queues["short"].serves_queues_in_order
    (error,) = checked(SHARES, "FAIRSHARE_QUEUES = short", priorities=priorities).errors
    assert error == (
        "lsb.queues:5: FAIRSHARE_QUEUES: the priority 40 of queue other lies within 30 to 50, the priorities of "
        "normal, short: choose another one, or set DISPATCH_ORDER = QUEUE"
    )
    (error,) = checked(SHARES, "FAIRSHARE_QUEUES = short", priorities=(30, 30, 30)).errors
    assert "the priority 30 of queue other lies within 30, the priorities of" in error


@pytest.mark.parametrize(
    ("lines", "short", "said"),
    [
        (
            ("FAIRSHARE_QUEUES = short",),
            "",
            "lsb.queues:4: FAIRSHARE_QUEUES: queue normal has no FAIRSHARE, which",
        ),
        ((SHARES, "FAIRSHARE_QUEUES = shrot"), "", "queue shrot is not defined in lsb.queues; did you mean short"),
        ((SHARES, "FAIRSHARE_QUEUES = normal"), "", "queue normal names itself"),
        ((SHARES, "FAIRSHARE_QUEUES ="), "", "lsb.queues:5: FAIRSHARE_QUEUES"),
        ((SHARES, "FAIRSHARE_QUEUES = short", "DISPATCH_ORDER = USER"), "", "DISPATCH_ORDER: 'USER' is not QUEUE"),
    ],
)
def test_what_is_wrong_with_a_set(lines: tuple[str, ...], short: str, said: str) -> None:
    (error,) = checked(*lines, short=short).errors
    assert said in error


def test_a_queue_belongs_to_one_set() -> None:
    other = f"{SHARES}\nFAIRSHARE_QUEUES = other"
    errors = checked(SHARES, "FAIRSHARE_QUEUES = short", short=other).errors
    assert errors == ["lsb.queues:5: FAIRSHARE_QUEUES: queue short has FAIRSHARE_QUEUES of its own"]
    (error,) = checked(SHARES, "FAIRSHARE_QUEUES = other", short=other, priorities=(30, 60, 50)).errors
    assert error.endswith("FAIRSHARE_QUEUES: queue other is divided by the FAIRSHARE of normal already")


def test_what_has_no_effect_is_noted() -> None:
    found = checked(SHARES, "FAIRSHARE_QUEUES = short", short="FAIRSHARE = USER_SHARES[[bob, 1]]")
    assert found.errors == []
    assert found.notes == ["lsb.queues:10: note: FAIRSHARE has no effect: that of normal divides short too"]
    assert checked(SHARES, "DISPATCH_ORDER = QUEUE").notes == [
        "lsb.queues:5: note: DISPATCH_ORDER has no effect: the queue has no FAIRSHARE_QUEUES"
    ]
