"""What lsf.conf says of a shared cluster: ports, certificates, munge, unknown users."""

from __future__ import annotations

import pytest
from config_texts import BASE

from gsched.config.configuration import check_texts
from gsched.model.config import ClusterConfig, Network


def config(lines: str = "") -> ClusterConfig:
    return check_texts("/conf", {**BASE, "lsf.conf": BASE["lsf.conf"] + lines}).required()


def errors(lines: str) -> list[str]:
    loaded = check_texts("/conf", {**BASE, "lsf.conf": BASE["lsf.conf"] + lines})
    return [str(problem) for problem in loaded.problems if problem.severity == "error"]


def test_without_a_port_a_cluster_is_private() -> None:
    private = config()
    assert not private.is_shared
    assert private.network == Network(tls_dir="/conf/tls")
    assert not private.unknown_users
    assert {private.folder_of(name) for name in ("master", "door", "agent")} == {private.locations.run_dir}


def test_a_port_makes_it_a_shared_one() -> None:
    shared = config("LSB_MBD_PORT=6881\nLSF_MASTER_LIST=h2\nGSCHED_UNKNOWN_USERS=y\nGSCHED_TLSDIR=/etc/pki/gsched\n")
    assert shared.is_shared
    assert shared.master_address == "h2:6881"
    assert shared.unknown_users
    assert shared.administration_hosts == ("h2",)
    assert config('GSCHED_ADMIN_HOSTS="h1 h2"\n').administration_hosts == ("h1", "h2")
    assert config("GSCHED_ADMIN_HOSTS=all\n").administration_hosts == tuple(shared.hosts)
    assert config('GSCHED_SYSTEM_USERS="www-data svc"\n').system_users == ("www-data", "svc")
    assert shared.network == Network(port=6881, tls_dir="/etc/pki/gsched")
    assert shared.folder_of("door") == f"{shared.locations.run_dir}/door"


def test_the_masters_host_is_the_first_server_where_nobody_says() -> None:
    assert config("LSB_MBD_PORT=6881\n").master_address == "h1:6881"


def test_several_masters() -> None:
    """Each takes itself for the one; all others look for whichever answers."""
    lines = 'LSB_MBD_PORT=6881\nLSF_MASTER_LIST="h2 h1"\nGSCHED_MUNGE_PORT=6883\nGSCHED_STORE=postgresql:///g\n'
    several = config(lines)
    assert several.masters == several.master_hosts == several.administration_hosts == ("h2", "h1")
    assert (several.master_address, several.munge_address) == ("h2:6881,h1:6881", "h2:6883,h1:6883")
    texts = {**BASE, "lsf.conf": BASE["lsf.conf"] + lines}
    assert [check_texts("/conf", texts, host).required().master_host for host in ("h1", "h2", "")] == ["h1", "h2", "h2"]
    one = config("LSB_MBD_PORT=6881\nLSF_MASTER_LIST=h2\n")
    assert (one.masters, one.master_hosts) == ((), ("h2",))


def test_munge_has_a_port_of_its_own() -> None:
    lines = "LSB_MBD_PORT=6881\nLSF_MASTER_LIST=h1\nGSCHED_MUNGE_PORT=6883\nGSCHED_MUNGE_SOCKET=/run/m.sock\n"
    shared = config(lines)
    assert shared.munge_address == "h1:6883"
    assert shared.network.munge_socket == "/run/m.sock"


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("LSB_MBD_PORT=0\n", "0"),
        ("LSB_MBD_PORT=65536\n", "65536"),
        ("LSB_MBD_PORT=http\n", "http"),
        ("GSCHED_TLSDIR=tls\nLSB_MBD_PORT=1\n", "tls"),
        ("GSCHED_UNKNOWN_USERS=maybe\n", "maybe"),
        ('GSCHED_ADMIN_HOSTS="h1 h9"\n', "GSCHED_ADMIN_HOSTS: h9 is not a host of lsf.cluster"),
        ('GSCHED_ADMIN_HOSTS="all h1"\n', "all stands alone"),
        ('GSCHED_SYSTEM_USERS="a b/c"\n', "GSCHED_SYSTEM_USERS"),
        ("GSCHED_MUNGE_PORT=6883\n", "LSB_MBD_PORT names the first"),
        ("LSB_MBD_PORT=6881\nGSCHED_MUNGE_PORT=6883\n", "needs LSF_MASTER_LIST"),
        ('LSB_MBD_PORT=6881\nLSF_MASTER_LIST="h1 h2"\n', "several masters need a store in PostgreSQL"),
        ("LSB_MBD_PORT=6881\nLSF_MASTER_LIST=h1\nGSCHED_MUNGE_PORT=6881\n", "each needs its own"),
    ],
)
def test_what_cannot_be_is_refused(lines: str, told: str) -> None:
    assert len(errors(lines)) == 1
    assert told in errors(lines)[0]
