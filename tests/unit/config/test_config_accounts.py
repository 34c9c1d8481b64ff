"""gadmin ckconfig notes names that are neither a user group nor an account."""

from __future__ import annotations

from config_texts import BASE, check

ACCOUNTS = frozenset({"ann", "bob", "adm"})


def notes(**files: str) -> list[str]:
    checked = check({name.replace("_", "."): text for name, text in files.items()}, has_account=ACCOUNTS.__contains__)
    assert checked.errors == []
    return [note for note in checked.notes if "no user or user group" in note or "more lines" in note]


def test_names_that_are_known_are_passed_over() -> None:
    assert (
        notes(
            lsb_queues=(
                "Begin Queue\nQUEUE_NAME = normal\nUSERS = all ~bob\nADMINISTRATORS = lab ann\n"
                "FAIRSHARE = USER_SHARES[[lab@, 3] [ann, 2] [default, 1]]\nEnd Queue\n"
            ),
            lsb_users=(
                "Begin UserGroup\nGROUP_NAME GROUP_MEMBER USER_SHARES GROUP_ADMIN\n"
                "lab (ann bob) ([ann, 3] [others, 1]) (ann[full] lab bob[UserShares])\nEnd UserGroup\n"
                "Begin User\nUSER_NAME MAX_JOBS\nann 3\nlab@ 2\ndefault 1\nEnd User\n"
            ),
            lsb_hosts=(
                "Begin HostGroup\nGROUP_NAME GROUP_MEMBER GROUP_ADMIN\nfront (all) (lab adm[full])\nEnd HostGroup\n"
            ),
            lsb_resources="Begin Limit\nNAME = l\nPER_USER = all ~ann\nSLOTS = 3\nEnd Limit\n",
        )
        == []
    )


def test_each_place_that_names_users_is_looked_at() -> None:
    assert notes(
        lsb_queues=(
            "Begin Queue\nQUEUE_NAME = normal\nUSERS = all ~bobb\nADMINISTRATORS = lab x1 x2\n"
            "FAIRSHARE = USER_SHARES[[lab@, 3] [x3, 2] [default, 1]]\nEnd Queue\n"
        ),
        lsb_users=(
            "Begin UserGroup\nGROUP_NAME GROUP_MEMBER USER_SHARES GROUP_ADMIN\n"
            "lab (ann x4) ([x4, 3]) (x5)\nEnd UserGroup\nBegin User\nUSER_NAME MAX_JOBS\nx6 3\nEnd User\n"
        ),
        lsb_hosts=(
            "Begin HostGroup\nGROUP_NAME GROUP_MEMBER GROUP_ADMIN\nfront (all) (x8[full])\nEnd HostGroup\n"
            "Begin ComputeUnit\nNAME MEMBER TYPE ADMIN\nrack1 (all) rack (x9)\nEnd ComputeUnit\n"
        ),
        lsb_resources="Begin Limit\nNAME PER_USER SLOTS\nl (all ~x7) 3\nEnd Limit\n",
    ) == [
        "lsb.queues:3: note: USERS: there is no user or user group bobb",
        "lsb.queues:4: note: ADMINISTRATORS: there is no user or user group x1, x2",
        "lsb.queues:5: note: FAIRSHARE: there is no user or user group x3",
        "lsb.hosts:3: note: GROUP_ADMIN: there is no user or user group x8",
        "lsb.hosts:7: note: ADMIN: there is no user or user group x9",
        "lsb.users:3: note: GROUP_MEMBER: there is no user or user group x4",
        "lsb.users:3: note: USER_SHARES: there is no user or user group x4",
        "lsb.users:3: note: GROUP_ADMIN: there is no user or user group x5",
        "lsb.users:7: note: USER_NAME: there is no user or user group x6",
        "lsb.resources:3: note: PER_USER: there is no user or user group x7",
    ]


def test_what_is_near_is_suggested() -> None:
    users = "Begin UserGroup\nGROUP_NAME GROUP_MEMBER\nphysics (ann)\nEnd UserGroup\n"
    queues = BASE["lsb.queues"].replace("PRIORITY = 30", "USERS = physic")
    (note,) = notes(lsb_users=users, lsb_queues=queues)
    assert note.endswith("USERS: there is no user or user group physic; did you mean physics?")


def test_many_unknown_names_never_make_an_error() -> None:
    rows = "".join(f"nobody{number} 1\n" for number in range(300))
    told = notes(lsb_users=f"Begin User\nUSER_NAME MAX_JOBS\n{rows}End User\n")
    assert len(told) == 51
    assert told[0] == "lsb.users: note: 250 more lines name users or groups that there are not"


def test_without_accounts_nothing_is_said() -> None:
    queues = BASE["lsb.queues"].replace("PRIORITY = 30", "USERS = nobody9")
    assert not [note for note in check({"lsb.queues": queues}).notes if "nobody9" in note]
