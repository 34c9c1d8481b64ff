"""bmod's command line: new values, and options that take old ones back."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import pytest

from gsched.base.errors import BadRequest
from gsched.dialect.bmod import read_modification
from gsched.dialect.bsub_options import BMOD, LIMIT_RESETS, RESETS
from gsched.dialect.spec_values import ValueContext
from gsched.model.jobs.job import JobSpec

AROUND = ValueContext(cwd="/home/ann", now=1e9, zone=UTC)


@pytest.mark.parametrize(
    ("words", "values", "limits"),
    [
        (["-W", "10", "12"], {"run_limit_s": 600}, {}),
        (["-q", "night", "12"], {"queue": "night"}, {}),
        (["12", "-qn"], {"queue": ""}, {}),
        (["-R", "rusage[mem=5]", "-R", "select[ncpus>1]", "12"], {"res_req": "select[ncpus>1] rusage[mem=5]"}, {}),
        (["-Rn", "-gpun", "12"], {"res_req": "", "gpu_req": ""}, {}),
        (["-n", "2,4", "12"], {"slots": 2, "max_slots": 4}, {}),
        (["-nn", "12"], {"slots": 1, "max_slots": 0}, {}),
        (["-J", "new", "12"], {"name": "new"}, {}),
        (["-J", "%5", "12"], {"array_limit": 5}, {}),
        (["-J", "%0", "12"], {"array_limit": 0}, {}),
        (["-Jn", "12"], {"name": ""}, {}),
        (["-mn", "12"], {"hosts": (), "host_levels": (), "other_hosts": False, "first_hosts": ()}, {}),
        (["-bn", "-tn", "-spn", "12"], {"begin_at": None, "terminate_at": None, "priority": None}, {}),
        (["-wn", "-gn", "-Gn", "12"], {"dependency": "", "group": "", "user_group": ""}, {}),
        (["-rn", "12"], {"rerunnable": False}, {}),
        (["-xn", "12"], {"exclusive": False}, {}),
        (["-Pn", "12"], {"project": ""}, {}),
        (["-on", "12"], {"output_file": "", "output_overwrite": False}, {}),
        (["-oo", "o", "12"], {"output_file": "o", "output_overwrite": True}, {}),
        (["-M", "4G", "-cn", "12"], {}, {"MEMLIMIT": 4096.0, "CPULIMIT": None}),
        (["-Z", "sleep 5", "12"], {"command": "sleep 5"}, {}),
        (["-cwd", "d", "12"], {"specified_cwd": "/home/ann/d"}, {}),
    ],
)
def test_what_changes(words: list[str], values: dict[str, Any], limits: dict[str, float | None]) -> None:
    asked = read_modification(words, AROUND)
    assert (asked.values, asked.limits, asked.jobs) == (values, limits, ("12",))
    assert all(getattr(asked.spec, name) == value for name, value in values.items())


def test_jobs_are_kept_as_typed() -> None:
    assert read_modification(["-Wn", "12[1-3]", "13"], AROUND).jobs == ("12[1-3]", "13")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["12"], "nothing to change: give an option (-h lists them)"),
        (["-W", "5"], "name a job"),
        (["-W", "5", "-Wn", "12"], "options -W and -Wn contradict each other"),
        (["-M", "5", "-Mn", "12"], "options -M and -Mn contradict each other"),
        (["-J", "a[1-3]", "12"], "-J 'a[1-3]': the indices of an array cannot be changed; -J '%5' changes its limit"),
        (["-Z", " ", "12"], "No command is specified"),
        (["-n", "4,2", "12"], "-n: '4,2': the most slots are fewer than the least"),
        (
            ["-env", "all", "12"],
            "option -env is not supported: the environment is that of the submission; gsub --resubmit submits anew",
        ),
        (["-K", "12"], "option -K is not supported: gwait waits for jobs"),
        (["-b", "9:00", "-t", "2001:1:1:0:00", "12"], "Bad time specification: -t '2001:1:1:0:00' is over already"),
        (["-zap", "12"], "unknown option -zap; did you mean -app?"),
    ],
)
def test_what_is_refused(words: list[str], reason: str) -> None:
    with pytest.raises(BadRequest) as caught:
        read_modification(words, AROUND)
    assert caught.value.text == f"{reason}. Job not modified."


def test_every_reset_undoes_an_option_and_names_fields_of_a_job() -> None:
    for name, (option, *fields) in RESETS.items():
        assert BMOD.option(name) and BMOD.option(option)
        assert set(fields) <= set(JobSpec.__struct_fields__)
        assert read_modification([f"-{name}", "1"], AROUND).values.keys() == set(fields)
    for name, option in LIMIT_RESETS.items():
        assert BMOD.option(name) and BMOD.option(option)


def test_help_needs_no_job() -> None:
    assert read_modification(["-h"], AROUND).wants_help and read_modification(["-V"], AROUND).wants_version


_NOT_YET = (
    *("a", "an", "app", "appn", "aps", "apsn", "ar", "arn", "B", "Bn", "clusters", "clustersn"),
    *("cn_cu", "cn_mem", "core_isolation", "csm", "data", "datan", "datachk", "datagrp", "datagrpn", "E", "En", "env"),
    *("envn", "Ep", "Epn", "eptl", "eptln", "ext", "extn", "f", "fn", "freq", "freqn", "H"),
    *("hl", "hln", "hostfile", "hostfilen", "is", "isn", "jobaff", "jsm", "K", "k", "kn", "L"),
    *("Ln", "Lp", "Lpn", "mig", "mign", "N", "Ne", "Nn", "network", "networkn", "nnodes", "nnodesn"),
    *("notify", "notifyn", "outdir", "outdirn", "ptl", "ptln", "rcacct", "rcacctn", "rnc", "s", "sn"),
    *("smt", "smtn", "stage", "step_cgroup", "step_cgroupn", "ti", "tin", "u", "un", "ul", "uln"),
    *("wa", "wan", "Wep", "wt", "wtn", "Zs", "Zsn"),
)


def test_every_option_of_bmod_works_or_is_refused_by_name() -> None:
    """Source of the names: bmod(1) of LSF 10.1. One that comes to work must leave the list."""
    known = {option.name: option for option in BMOD.options}
    works = {name for name, option in known.items() if not option.refused}
    for name in _NOT_YET:
        if name in works:
            continue  # it has come to work since
        with pytest.raises(BadRequest) as caught:
            BMOD.read([f"-{name}", "1", "7"])
        assert caught.value.text.startswith(f"option -{name} is not supported"), name


def test_nn_leaves_the_number_of_tasks_to_the_queue() -> None:
    assert read_modification(["-nn", "12"], AROUND).spec.defaulted == ("slots",)
    assert read_modification(["-n", "2", "12"], AROUND).spec.defaulted == ()
