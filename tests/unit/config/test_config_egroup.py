"""Groups whose members the program egroup lists."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from config_texts import BASE

from gsched.base.errors import BadRequest
from gsched.config.configuration import Loaded, load
from gsched.config.grammar.findings import SourcePlace
from gsched.config.names.external_groups import MAX_OUTPUT, OF_HOSTS, OF_USERS, GroupProgram, update_interval
from gsched.model.queues.user import Share

AT = SourcePlace("lsb.users", 3)
LISTS = """#!/bin/sh
case "$1 $2" in
"-u staff") printf 'ann bob\\nann\\n' ;;
"-u some") echo guests staff ;;
"-m left") echo h1 h2 ;;
esac
"""
USERS = """Begin UserGroup
GROUP_NAME GROUP_MEMBER USER_SHARES
staff (!) ([ann,3] [gone,1] [others,2])
some (!) ()
guests (tom) ()
End UserGroup
"""
HOSTS = """Begin HostGroup
GROUP_NAME GROUP_MEMBER
left (!)
rest (all ~left)
End HostGroup
Begin Host
HOST_NAME MXJ
left 3
default !
End Host
"""
QUEUE = "Begin Queue\nQUEUE_NAME = left\nHOSTS = left\nUSERS = all ~staff\nEnd Queue\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files of a cluster with two groups of users and one of hosts that egroup lists; egroup is not there yet."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "etc").mkdir(mode=0o755)
    conf = f"LSB_SHAREDIR=/var/lib/g\nLSF_LOGDIR=/var/log/g\nLSF_SERVERDIR={tmp_path}/etc\n"
    texts = {**BASE, "lsf.conf": conf, "lsb.users": USERS, "lsb.hosts": HOSTS, "lsb.queues": BASE["lsb.queues"] + QUEUE}
    for name, text in texts.items():
        (tmp_path / "conf" / name).write_text(text)
    return tmp_path


def program(folder: Path, text: str, mode: int = 0o755) -> Path:
    path = folder / "etc" / "egroup"
    path.write_text(text)
    path.chmod(mode)
    return path


def read(folder: Path, *, run_egroup: bool = True) -> Loaded:
    return load(str(folder / "conf"), has_account=lambda name: name != "bob", run_egroup=run_egroup)


def errors(loaded: Loaded) -> list[str]:
    return [f"{Path(each.path).name}:{each.line}: {each.text}" for each in loaded.problems if each.severity == "error"]


def asked(folder: Path, *, only_roots: bool = False, limit_s: float = 600.0) -> tuple[str, ...]:
    egroup = GroupProgram(str(folder / "etc"), "/conf", only_roots=only_roots, limit_s=limit_s)
    return egroup.members(OF_USERS, "g", AT)


def test_members_that_egroup_lists_are_what_members_in_the_file_are(folder: Path) -> None:
    program(folder, LISTS)
    loaded = read(folder)
    config = loaded.required()
    assert {name: group.users for name, group in config.user_groups.items()} == {
        "staff": ("ann", "bob"),
        "some": ("tom", "ann", "bob"),
        "guests": ("tom",),
    }
    assert config.user_groups["some"].members == ("guests", "staff")
    assert config.host_groups == {"left": ("h1", "h2"), "rest": ("h3",)}
    assert (config.queues["left"].hosts, config.queues["left"].excluded_users) == (("h1", "h2"), ("ann", "bob"))
    assert [config.hosts[name].max_slots for name in ("h1", "h2", "h3")] == [3, 3, None]
    assert config.user_groups["staff"].shares == (Share("ann", 3), Share("others", 2))
    notes = [(Path(each.path).name, each.line, each.text) for each in loaded.problems]
    gone = "USER_SHARES: gone is not a member of the group, as egroup lists it: the share has no effect"
    assert ("lsb.users", 3, gone) in notes
    assert ("lsb.users", 3, "GROUP_MEMBER: there is no user or user group bob") in notes


def test_whoever_does_not_act_on_members_runs_nothing(folder: Path) -> None:
    program(folder, f"#!/bin/sh\ntouch {folder}/ran\necho h9\n")
    config = read(folder, run_egroup=False).required()
    assert not (folder / "ran").exists()
    assert set(config.host_groups) == {"left", "rest"} and set(config.user_groups) == {"staff", "some", "guests"}
    assert not any(group.users in (("ann",), ("all",)) for group in config.user_groups.values())


def test_a_host_that_there_is_not_and_a_name_that_cannot_be_are_told_where_the_group_stands(folder: Path) -> None:
    program(folder, "#!/bin/sh\n[ $1 = -m ] && echo h1 h9 || echo a/b\n")
    assert errors(read(folder)) == [
        "lsb.queues:7: HOSTS: group left has no hosts",  # as of a group that the file itself gets wrong
        "lsb.hosts:3: host group left: host h9 is not defined in lsf.cluster, nor a group of lsb.hosts",
        "lsb.hosts:8: group left has no hosts",
        "lsb.users:3: user group staff: 'a/b' cannot be the name of a user",
        "lsb.users:4: user group some: 'a/b' cannot be the name of a user",
    ]


def test_a_program_that_is_missing_is_one_line_for_each_group(folder: Path) -> None:
    path = folder / "etc" / "egroup"
    assert errors(read(folder)) == [
        f"lsb.hosts:3: group left: {path}: cannot be run: No such file or directory",
        f"lsb.users:3: group staff: {path}: cannot be run: No such file or directory",
        f"lsb.users:4: group some: {path}: cannot be run: No such file or directory",
    ]


@pytest.mark.parametrize(
    ("text", "mode", "problem"),
    [
        ("#!/bin/sh\necho a\n", 0o644, "{path}: cannot be run: Permission denied"),
        ("echo a\n", 0o755, "{path}: cannot be run: Exec format error"),
        ("#!/no/such\n", 0o755, "{path}: cannot be run: No such file or directory"),
        ("#!/bin/sh\necho a; exit 3\n", 0o755, "{path} -u g: it ended with exit code 3"),
        ("#!/bin/sh\necho no LDAP >&2; exit 1\n", 0o755, "{path} -u g: it ended with exit code 1: no LDAP"),
        ("#!/bin/sh\nkill -9 $$\n", 0o755, "{path} -u g: it was ended by signal 9"),
        ("#!/bin/sh\n", 0o755, "{path} -u g: it lists no member"),
        ("#!/bin/sh\nprintf '\\377'\n", 0o755, "{path} -u g: what it lists is not UTF-8 text"),
        ("#!/bin/sh\necho a '!g'\n", 0o755, "{path} -u g: it lists '!g', which is no name"),
        ("#!/bin/sh\nexec yes name\n", 0o755, f"{{path}} -u g: it lists more than {MAX_OUTPUT >> 20} MiB"),
    ],
)
def test_what_is_wrong_with_a_program_is_named(folder: Path, text: str, mode: int, problem: str) -> None:
    path = program(folder, text, mode)
    with pytest.raises(BadRequest) as caught:
        asked(folder)
    assert caught.value.text == problem.format(path=path)


def test_one_that_hangs_is_ended_with_what_it_started(folder: Path) -> None:
    path = program(folder, "#!/bin/sh\nsleep 600 &\nsleep 600\n")
    with pytest.raises(BadRequest) as caught:
        asked(folder, limit_s=0.2)
    assert caught.value.text == f"{path} -u g: it did not end in time, and was ended"


def test_one_that_has_closed_its_output_and_goes_on_is_ended(folder: Path) -> None:
    program(folder, "#!/bin/sh\nexec >&- 2>&-\nexec sleep 600\n")
    with pytest.raises(BadRequest, match="did not end in time"):
        asked(folder, limit_s=0.5)


def test_it_sees_nothing_of_who_runs_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "x")
    program(folder, "#!/bin/sh\npwd\numask\nenv | grep -v -e ^_= -e ^PWD= -e ^OLDPWD= -e ^SHLVL= | sort\n")
    assert asked(folder) == (
        "/",
        "0077",
        "LC_ALL=C.UTF-8",
        "LSF_ENVDIR=/conf",
        f"LSF_SERVERDIR={folder}/etc",
        f"PATH={os.defpath}",
    )


def test_one_that_others_than_root_can_change_is_not_run_where_it_must_be_roots(folder: Path) -> None:
    path = program(folder, f"#!/bin/sh\ntouch {folder}/ran\necho a\n", 0o757)
    with pytest.raises(BadRequest) as caught:
        asked(folder, only_roots=True)
    assert caught.value.text.startswith(f"{path} -u g: it is not run, for others than root can change it: /")
    assert not (folder / "ran").exists()
    assert asked(folder) == ("a",)


def test_a_shared_cluster_wants_roots_program(folder: Path) -> None:
    program(folder, LISTS, 0o757)
    with (folder / "conf" / "lsf.conf").open("a") as file:
        file.write("LSB_MBD_PORT=6881\n")
    found = errors(read(folder))
    assert len(found) == 3 and all("others than root can change it" in each for each in found)


def test_a_folder_of_that_name_is_refused(folder: Path) -> None:
    (folder / "etc" / "egroup").mkdir()
    with pytest.raises(BadRequest, match="egroup -u g: not a regular file"):
        asked(folder)


def test_which_group_is_asked_for(folder: Path) -> None:
    program(folder, '#!/bin/sh\necho "$#" "$@"\n')
    egroup = GroupProgram(str(folder / "etc"), "/conf", only_roots=False)
    assert egroup.members(OF_HOSTS, "left", AT) == ("2", "-m", "left")
    assert egroup.members(OF_USERS, "staff", AT) == ("2", "-u", "staff")


@pytest.mark.parametrize(("text", "seconds"), [("1", 3600.0), ("2h", 7200.0), ("90m", 5400.0), ("5 M", 300.0)])
def test_the_interval_is_hours_or_minutes(text: str, seconds: float) -> None:
    assert update_interval(text) == seconds


@pytest.mark.parametrize("text", ["0", "0m", "-1", "1.5", "1s", "x", "999999"])
def test_an_interval_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="neither a number of hours nor of minutes"):
        update_interval(text)
