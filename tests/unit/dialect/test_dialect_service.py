"""--service, --service-users and --notebook of gsub and gmod, and on #BSUB lines."""

from __future__ import annotations

import pytest
from test_dialect_bsub import AROUND, refusal, submit

from gsched.base.errors import BadRequest
from gsched.dialect.bmod import read_modification
from gsched.dialect.environment import environment_block
from gsched.dialect.service_options import NOTEBOOK


@pytest.mark.parametrize(
    ("words", "service"),
    [(("--service", "auto"), "auto"), (("--service=8888",), "8888"), (("--service", "08888"), "8888")],
)
def test_a_port_or_a_free_one(words: tuple[str, ...], service: str) -> None:
    spec = submit(*words, "--service-users", "ann bob ann", "serve").spec
    assert (spec.service, spec.service_users, spec.command) == (service, ("ann", "bob"), "serve")


def test_in_a_script_the_command_line_counts_more() -> None:
    script = b"#BSUB --service auto\n#BSUB --service-users ann\nserve\n"
    assert submit(stdin=script).spec.service == "auto"
    assert submit("--service", "8888", stdin=script).spec.service == "8888"


def test_a_notebook_is_a_service_with_a_command_that_holds_no_secret() -> None:
    asked = submit("--notebook", "-gpu", "num=1", "-J", "explore")
    assert (asked.spec.service, asked.spec.command, asked.spec.gpu_req) == ("auto", NOTEBOOK, "num=1")
    assert asked.script is None and not asked.from_stdin
    assert (asked.spec.name, submit("--notebook").spec.name) == ("explore", "notebook")
    assert "$GSCHED_SERVICE_TOKEN" in NOTEBOOK and '--port="$GSCHED_SERVICE_PORT"' in NOTEBOOK


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--service", "80"), "--service: '80' is neither auto nor a port from 1024 to 65535"),
        (("--service", "65536"), "--service: '65536' is neither auto nor a port from 1024 to 65535"),
        (("--service", "any"), "--service: 'any' is neither auto nor a port from 1024 to 65535"),
        (("--service", "auto", "--service-users", " "), "--service-users takes 1 to 100 names of users, not 0"),
        (("--service-users", "ann"), "option --service-users needs --service or --notebook beside it"),
    ],
)
def test_what_is_wrong_is_said(words: tuple[str, ...], text: str) -> None:
    assert refusal(*words, "run") == text


def test_a_notebook_takes_no_other_command() -> None:
    assert refusal("--service", "auto", "--notebook") == (
        "options --service and --notebook exclude each other: --notebook is --service auto"
    )
    assert refusal("--notebook", "jupyter", "notebook") == (
        "--notebook says what runs, so 'jupyter notebook' cannot stand beside it: use --service auto"
    )
    assert "'--notebook' cannot stand in a #BSUB line" in refusal(stdin=b"#BSUB --notebook\nrun\n")


def test_gmod_changes_who_may_use_it_alone() -> None:
    assert read_modification(["--service-users", "ann", "12"], AROUND).values == {"service_users": ("ann",)}
    assert read_modification(["--service-usersn", "12"], AROUND).values == {"service_users": ()}
    with pytest.raises(BadRequest, match="unknown option --service"):
        read_modification(["--service", "auto", "12"], AROUND)


def test_a_job_that_a_notebook_submits_is_not_told_its_secret() -> None:
    told = {
        "GSCHED_SERVICE_PORT": "8888",
        "GSCHED_SERVICE_TOKEN": "secret",
        "GSCHED_SERVICE_URL": "http://localhost:8888/",
    }
    assert environment_block({"A": "1", **told, "JUPYTER_TOKEN": "secret", "Z": ""}) == b"A=1\0Z=\0"
    assert environment_block({**told, "JUPYTER_TOKEN": "mine"}) == b"JUPYTER_TOKEN=mine\0"
    of_slurm = {"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "a", "SLURM_NTASKS": "2", "A": "1"}
    assert environment_block(of_slurm) == b"A=1\0"
    assert environment_block({"SLURM_NTASKS": "2"}) == b"SLURM_NTASKS=2\0"
    for empty in ({}, {"GSCHED_SERVICE_TOKEN": ""}):
        assert environment_block({**empty, "JUPYTER_TOKEN": ""}) == b"JUPYTER_TOKEN=\0"
