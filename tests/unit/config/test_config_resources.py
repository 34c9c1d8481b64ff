"""lsf.shared and lsf.cluster: resources, hosts, and where resources are."""

from __future__ import annotations

import pytest
from config_texts import BASE, check, line_after, with_lines

from gsched.base.errors import BadRequest
from gsched.config.configuration import check_texts
from gsched.config.files.lsf_shared import read_shared
from gsched.config.files.resource_map import Instance, parse_location
from gsched.config.grammar.findings import Findings
from gsched.config.grammar.sections import read_sections
from gsched.config.template import RESOURCE_STANZA, NewConfiguration, private_texts
from gsched.model.config import Locations
from gsched.model.hosts.resource import GPU_COUNTERS, ResourceType
from gsched.model.queues.queue import Threshold

SEED_RESOURCE = """\
Begin Resource

RESOURCENAME  TYPE     INTERVAL  INCREASING  CONSUMABLE  DESCRIPTION # Keywords
ngpus         Numeric  60        N           N           (Number of GPUs)
ngpus_shared     Numeric  60        N           N           (Number of GPUs in Shared Mode)
ngpus_excl_t  Numeric  60        N           Y           (Number of GPUs in Exclusive thread Mode)
ngpuprohibited Numeric  60        N           N           (Number of GPUs in Prohibited Mode)
ngpus_excl_p  Numeric  60        N           Y           (Number of GPUs in Exclusive process Mode)

End Resource
"""

SEED_MAP = """\
Begin ResourceMap
RESOURCENAME            LOCATION
ngpus                   ([default])
ngpus_shared               ([default])
ngpus_excl_t            ([default])
ngpuprohibited           ([default])
ngpus_excl_p            ([default])
End ResourceMap
"""

SHIPPED_RESOURCE = """\
Begin Resource
   RESOURCENAME  TYPE    INTERVAL INCREASING  DESCRIPTION
   mips       Boolean ()       ()          (MIPS architecture)
   aix        Boolean ()       ()          (AIX UNIX)
   define_ncpus_procs   Boolean () ()      (ncpus := procs)
   gpu        Boolean ()       ()          (gpu availability)
End Resource
"""


def resources(*rows: str, columns: str = "RESOURCENAME TYPE INTERVAL INCREASING CONSUMABLE DESCRIPTION"):
    findings = Findings()
    text = "\n".join(["Begin Resource", columns, *rows, "End Resource"])
    shared = read_shared(read_sections("f", text, findings), findings)
    return shared.resources, [str(problem) for problem in findings.problems]


@pytest.mark.parametrize("blank", ["  ", "\xa0 ", " \xa0", "\t"])
def test_the_gpu_stanzas_paste_in_unchanged_beside_the_shipped_ones(blank):
    shared = (
        "Begin Cluster\nClusterName\nc1\nEnd Cluster\n" + SHIPPED_RESOURCE + "\n" + SEED_RESOURCE.replace("  ", blank)
    )
    cluster = (
        "Begin Host\nHOSTNAME model type server r1m mem swp RESOURCES\nh1 ! ! 1 () () () (gpu mips)\n"
        "h2 ! ! 1 - - - ()\nEnd Host\n" + SEED_MAP.replace("  ", blank)
    )
    checked = check({"lsf.shared": shared, "lsf.cluster.c1": cluster})
    assert checked.errors == []
    config = checked.config
    assert config is not None
    assert [name for name in config.resources if name in GPU_COUNTERS] == list(GPU_COUNTERS)
    assert {name: r.consumable for name, r in config.resources.items() if name in GPU_COUNTERS} == {
        "ngpus": False,
        "ngpus_shared": False,
        "ngpus_excl_t": True,
        "ngpuprohibited": False,
        "ngpus_excl_p": True,
    }
    assert config.resources["ngpus_excl_p"].description == "Number of GPUs in Exclusive process Mode"
    assert config.resources["ngpus_excl_p"].interval_s == 60
    assert config.external_on("h2") == GPU_COUNTERS
    assert config.hosts["h1"].resources == ("gpu", "mips")
    assert [note for note in checked.notes if "CONSUMABLE" in note] == [
        f"lsf.shared:{16 + i}: note: {name}: claims on GPUs are counted whatever CONSUMABLE says (it says N), "
        "so jobs may claim it"
        for i, name in enumerate(("ngpus", "ngpus_shared"))
    ]


def test_our_own_stanzas_say_the_same_as_the_pasted_ones():
    findings = Findings()
    read = [
        read_shared(read_sections("f", text, findings), findings).resources for text in (RESOURCE_STANZA, SEED_RESOURCE)
    ]
    assert read[0] == read[1]


def test_defaults_of_a_resource():
    found, problems = resources("a", "b", columns="RESOURCENAME")
    assert not problems
    assert (found["a"].type, found["a"].interval_s, found["a"].consumable) == (ResourceType.BOOLEAN, None, False)
    found, _ = resources("n Numeric ()", "d Numeric 60", columns="RESOURCENAME TYPE INTERVAL")
    assert found["n"].consumable and found["d"].consumable
    found, _ = resources("up numeric 60 Y () ()")
    assert found["up"].increasing and not found["up"].consumable
    assert found["up"].source == "f:3"


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ("mem Numeric 60 N Y ()", "RESOURCENAME: 'mem' is the name of a built-in resource and cannot be defined again"),
        (
            "local Boolean () () () ()",
            "RESOURCENAME: 'local' is the name of a built-in resource and cannot be defined again",
        ),
        ("2fast Boolean () () () ()", "RESOURCENAME: '2fast' may not start with a digit, inf or nan"),
        ("Infra Boolean () () () ()", "RESOURCENAME: 'Infra' may not start with a digit, inf or nan"),
        ("a+b Boolean () () () ()", "RESOURCENAME: 'a+b' may not hold +"),
        (f"{'a' * 40} Boolean () () () ()", f"RESOURCENAME: '{'a' * 40}' is longer than 39 characters"),
        ("() Boolean () () () ()", "RESOURCENAME: a name is missing"),
        ("a Integer () () () ()", "TYPE: 'Integer' is none of Boolean, String and Numeric"),
        ("a Numeric often N Y ()", "INTERVAL: 'often' is not a whole number from 1 to 86400"),
        ("a Numeric 0 N Y ()", "INTERVAL: '0' is not a whole number from 1 to 86400"),
        ("a Numeric 60 maybe Y ()", "INCREASING: 'maybe' is neither Y nor N"),
        ("a Numeric 60 N maybe ()", "CONSUMABLE: 'maybe' is neither Y nor N"),
        ("a Boolean 60 () () ()", "a: a Boolean resource with an INTERVAL is not supported yet; use Numeric 0 and 1"),
        (
            "ngpus String 60 () () ()",
            "ngpus counts GPUs: its TYPE must be Numeric and its INTERVAL a number of seconds",
        ),
        ("ngpus Numeric () N N ()", "ngpus counts GPUs: its TYPE must be Numeric and its INTERVAL a number of seconds"),
    ],
)
def test_a_resource_that_cannot_be_defined(row, error):
    assert resources(row)[1] == [f"f:3: {error}"]


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        ("a Boolean () () () ()", "a String () () () ()", "TYPE is String here and Boolean"),
        ("a Numeric () () () ()", "a Numeric 60 () () ()", "INTERVAL is 60 here and ()"),
        ("a Numeric 60 N Y ()", "a Numeric 60 Y Y ()", "INCREASING is Y here and N"),
        ("a Numeric 60 N Y ()", "a Numeric 60 N N ()", "CONSUMABLE is N here and Y"),
    ],
)
def test_a_second_definition_that_says_something_else_names_the_first(first, second, what):
    assert resources(first, second)[1] == [f"f:4: resource a is defined twice, and not alike: {what} at f:3"]


def test_an_equal_definition_is_a_note():
    """The words of its description may be others."""
    found, problems = resources("a numeric 60 N Y (the first)", "a Numeric 60 N Y (as the manual has it)")
    assert problems == ["f:4: note: resource a is defined again, as at f:3: this changes nothing"]
    assert found["a"].description == "the first"


def test_the_gpu_stanzas_paste_in_below_those_that_a_new_cluster_has():
    """As `gsched up` writes the files, and as the manuals of LSF have their lines, comment and blank lines in them."""
    folders = Locations(**{**dict.fromkeys(Locations.__struct_fields__, "/y"), "conf_dir": "/x"})
    texts = private_texts(
        NewConfiguration(cluster="c1", hosts=["h1", "h2"], slots=4, folders=folders, gpu_provider="nvml")
    )
    shared, cluster = "lsf.shared", "lsf.cluster.c1"
    before = check_texts("/x", texts)
    pasted = {**texts, shared: texts[shared] + SEED_RESOURCE, cluster: texts[cluster] + SEED_MAP}
    after = check_texts("/x", pasted)
    assert not [problem for problem in after.problems if problem.severity == "error"]
    assert before.config is not None and after.config is not None
    assert after.config.resources == before.config.resources
    assert after.config.external_on("h2") == before.config.external_on("h2") == GPU_COUNTERS
    more = [problem.text for problem in after.problems if problem not in before.problems]
    assert [text.split(" again")[0] for text in more] == [
        *(f"resource {name} is defined" for name in GPU_COUNTERS),
        *(f"resource {name} is mapped" for name in GPU_COUNTERS),
    ]


def test_columns_are_checked_and_corrected():
    assert resources("a Y", columns="RESOURCENAME CONSUMEABLE")[1] == [
        "f:2: unknown column CONSUMEABLE in section Resource; did you mean CONSUMABLE?"
    ]
    assert resources("Numeric", columns="TYPE")[1] == ["f:2: section Resource has no column RESOURCENAME"]


def test_columns_that_mean_nothing_are_noted():
    assert resources("s String () N Y ()")[1] == [
        "f:3: note: s: INCREASING means nothing for a String resource",
        "f:3: note: s: CONSUMABLE means nothing for a String resource",
    ]


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        (["Begin Cluster", "ClusterName", "c2", "End Cluster"], "a second cluster (c2)"),
        (["Begin Cluster", "ClusterName", "c1", "End Cluster"], "note: cluster c1 is defined again, as at lsf.shared:"),
        (
            ["Begin Cluster", "ClusterName Servers", "c2 (h1)", "End Cluster"],
            "Servers is not supported yet (found 'h1')",
        ),
        (["Begin HostType", "TYPENAME", "LINUX64", "End HostType"], "note: host type LINUX64 is defined again"),
        (
            ["Begin HostModel", "MODELNAME CPUFACTOR", "fast 1", "End HostModel"],
            "host model fast is defined twice, and not alike: CPUFACTOR is 1 here and 2.5 at lsf.shared:",
        ),
        (
            ["Begin HostModel", "MODELNAME CPUFACTOR", "fast 2.50", "End HostModel"],
            "note: host model fast is defined again",
        ),
        (
            ["Begin HostModel", "MODELNAME CPUFACTOR", "m -1", "End HostModel"],
            "CPUFACTOR: '-1' is not a factor above 0",
        ),
    ],
)
def test_other_sections_of_lsf_shared(lines, error):
    where = f"lsf.shared:{line_after('lsf.shared') + 2}: "
    found = check(with_lines("lsf.shared", *lines))
    assert any(line.startswith(where + error) for line in (found.notes if error.startswith("note") else found.errors))


def cluster(rows: list[str], map_rows: list[str] | None = None, columns: str = "HOSTNAME model type server RESOURCES"):
    """BASE with these hosts (from line 3 on) and this map."""
    text = ["Begin Host", columns, *rows, "End Host"]
    text += ["Begin ResourceMap", "RESOURCENAME LOCATION", *map_rows, "End ResourceMap"] if map_rows else []
    return check({"lsf.cluster.c1": "\n".join(text)})


def test_hosts_with_resources():
    checked = cluster(["h1 fast LINUX64 1 (gpu fabric=ib lic=4)", "h2 ! ! () gpu", "c ! ! 0 -"])
    assert checked.errors == []
    hosts = checked.config.hosts
    assert hosts["h1"].values == {"fabric": "ib", "lic": 4.0}
    assert (hosts["h1"].cpu_factor, hosts["h1"].model, hosts["h1"].type) == (2.5, "fast", "LINUX64")
    assert (hosts["h2"].resources, hosts["h2"].server, hosts["c"].server) == (("gpu",), True, False)
    assert any("no administrators are named" in note for note in checked.notes)


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ("h1 fats ! 1 ()", "host model fats is not defined in lsf.shared (HostModel); did you mean fast?"),
        ("h1 ! LINUX6 1 ()", "host type LINUX6 is not defined in lsf.shared (HostType); did you mean LINUX64?"),
        ("h1 ! ! 2 ()", "server: '2' is not a whole number from 0 to 1"),
        ("all ! ! 1 ()", "HOSTNAME: 'all' cannot be the name of a host"),
        ("h[1-4] ! ! 1 ()", "HOSTNAME: 'h[1-4]' cannot be the name of a host"),
        ("../x ! ! 1 ()", "HOSTNAME: '../x' cannot be the name of a host"),
        ("h1 ! ! 1 (gpus)", "RESOURCES: gpus is not defined in lsf.shared; did you mean gpu?"),
        ("h1 ! ! 1 (mem=5)", "RESOURCES: mem is built in and found out by the agent"),
        ("h1 ! ! 1 (gpu=2)", "RESOURCES: gpu is Boolean and takes no value; naming it means the host has it"),
        ("h1 ! ! 1 (gpu gpu)", "RESOURCES: gpu is given twice"),
        ("h1 ! ! 1 (lic)", "RESOURCES: lic needs a value: lic=VALUE"),
        ("h1 ! ! 1 (lic=many)", "RESOURCES: 'many' is not a number"),
        ("h1 ! ! 1 (!gpus)", "RESOURCES: gpus is not defined in lsf.shared; did you mean gpu?"),
        ("h1 ! ! 1 (!gpu=2)", "RESOURCES: gpu is Boolean and takes no value; naming it means the host has it"),
        ("h1 ! ! 1 (!fabric=ib)", "RESOURCES: '!fabric=ib': only a Boolean resource can keep a host for itself"),
        (
            "h1 ! ! 1 (scratch=5)",
            "RESOURCES: scratch has an INTERVAL, so elims report it: place it with ResourceMap instead",
        ),
    ],
)
def test_a_host_that_cannot_be_used(row, error):
    assert cluster([row, "h2 ! ! 1 ()"]).errors == [f"lsf.cluster.c1:3: {error}"]


def test_a_host_is_busy_beyond_its_thresholds_and_lsb_hosts_comes_first():
    text = "Begin Host\nHOSTNAME r1m ut mem RESOURCES\nh1 3.5 0.9 500 ()\nh2 () () - ()\nEnd Host\n"
    rows = "Begin Host\nHOST_NAME r1m\nh1 1/2\nEnd Host\n"
    checked = check({"lsf.cluster.c1": text, "lsb.hosts": rows})
    assert checked.errors == []
    hosts = checked.config.hosts
    assert hosts["h1"].thresholds == {"r1m": Threshold(1, 2), "ut": Threshold(0.9), "mem": Threshold(500)}
    assert hosts["h2"].thresholds == {}
    assert cluster(["h1 1/2", "h2 ()"], columns="HOSTNAME r1m").errors == [
        "lsf.cluster.c1:3: r1m: '1/2' is not one value; lsb.hosts takes loadSched/loadStop"
    ]


def test_hosts_twice_none_and_columns_that_are_not_supported():
    assert cluster(["h1 ! ! 1 ()", "h1 ! ! 1 ()"]).errors == [
        "lsf.cluster.c1:4: host h1 is defined twice (first at lsf.cluster.c1:3)"
    ]
    no_host = cluster(["h1 ! ! 0 ()"]).errors
    assert no_host == ["lsf.cluster.c1: no server host is defined (section Host: HOSTNAME model type server RESOURCES)"]
    assert cluster(["h1 3.5 0", "h2 () ()"], columns="HOSTNAME r1m REXPRI").errors == [
        "lsf.cluster.c1:3: REXPRI is not supported yet (found '0'): use NICE of a queue",
    ]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("EXINTERVAL = 0", "EXINTERVAL: '0' is not a number of seconds from 0.05 to 31536000"),
        ("ELIMARGS = -v 'a", "ELIMARGS: '-v 'a' cannot be split into words: No closing quotation"),
        (
            "EXINTERVALL = 5",
            "unknown parameter EXINTERVALL in section Parameters of lsf.cluster; did you mean EXINTERVAL?",
        ),
        ("EXINTERVAL =", "EXINTERVAL: the value is empty"),
        ("EXINTERVAL = 1\nexinterval = 2", "exinterval is set twice (first at line"),
    ],
)
def test_parameters_of_lsf_cluster(line, error):
    checked = check(with_lines("lsf.cluster.c1", "Begin Parameters", line, "End Parameters"))
    where = line_after("lsf.cluster.c1") + 1 + line.count("\n")
    assert len(checked.errors) == 1
    assert checked.errors[0].startswith(f"lsf.cluster.c1:{where}: {error}")


def test_intervals_and_administrators():
    lines = ["Begin Parameters", "EXINTERVAL = 2.5", "ELIM_POLL_INTERVAL = 5", "End Parameters"]
    checked = check(with_lines("lsf.cluster.c1", *lines))
    assert checked.config.timing.exchange_s == 2.5
    assert checked.config.administrators == ("adm",)
    assert checked.notes == [
        f"lsf.cluster.c1:{line_after('lsf.cluster.c1') + 2}: note: ELIM_POLL_INTERVAL has no effect: "
        "what an elim writes is read as it comes"
    ]
    checked = check(with_lines("lsf.cluster.c1", "Begin Parameters", "EXINTERVAL = 60", "End Parameters"))
    assert "a host would be lost between two reports" in checked.errors[0]


def test_location_grammar():
    assert parse_location("[default]") == (Instance("", ("default",)),)
    assert parse_location("[h1] [h2 h3]") == (Instance("", ("h1",)), Instance("", ("h2", "h3")))
    assert parse_location("5@[all ~h1]") == (Instance("5", ("all", "~h1")),)
    assert parse_location(" [5@all] 2 @ [h1]") == (Instance("5", ("all",)), Instance("2", ("h1",)))


@pytest.mark.parametrize("text", ["", "h1", "[]", "[h1", "[[h1]]", "5@", "1@[2@h1]", "[h1],[h2]", "1@2@[h1]"])
def test_a_location_that_is_none(text):
    with pytest.raises(BadRequest):
        parse_location(text)


HOSTS = ["h1 ! ! 1 (lic=9)", "h2 ! ! 1 ()", "h3 ! ! 1 ()", "cl ! ! 0 ()"]


@pytest.mark.parametrize(
    ("location", "hosts"),
    [
        ("[default]", ("h1", "h2", "h3")),
        ("([default])", ("h1", "h2", "h3")),
        ("([h3] [h1])", ("h1", "h3")),
        ("([all ~h1 ~h2])", ("h3",)),
        ("([h1] [h2] [others])", ("h1", "h2", "h3")),
    ],
)
def test_where_elims_report(location, hosts):
    checked = cluster(HOSTS, [f"scratch {location}"])
    assert checked.errors == []
    assert checked.config.mapped == {"scratch": hosts}


def test_static_values_of_single_hosts_and_of_several():
    checked = cluster(HOSTS, ["lic (4@[default])", "tokens (5@[h1 h2] 7@[others])", "fabric (eth@[all ~h1] ib@[h1])"])
    assert checked.errors == []
    values = {name: host.values for name, host in checked.config.hosts.items()}
    assert values == {
        "h1": {"lic": 9.0, "fabric": "ib"},
        "h2": {"lic": 4.0, "fabric": "eth"},
        "h3": {"lic": 4.0, "fabric": "eth"},
        "cl": {},
    }
    assert [(each.hosts, each.value) for each in checked.config.shared["tokens"]] == [
        (("h1", "h2"), 5.0),
        (("h3",), 7.0),
    ]
    assert checked.config.mapped == {}


def test_types_that_lsf_knows_need_no_definition():
    checked = cluster(["h1 ! X86_64 1 ()", "h2 ! LINUX 1 ()"])
    assert checked.errors == []
    assert [host.type for host in checked.config.hosts.values()] == ["X86_64", "LINUX"]


def test_what_several_hosts_share_is_one_instance_for_all_of_them():
    checked = cluster(HOSTS, ["tokens (4@[h2 h3] 6@[others])", "scratch ([all ~h3])"])
    assert checked.errors == []
    found = [(each.key, each.hosts, each.value, each.consumable, each.of_all) for each in checked.config.instances]
    assert found == [
        ("tokens 0", ("h2", "h3"), 4.0, False, False),
        ("tokens 1", ("h1",), 6.0, False, False),
        ("scratch 0", ("h1", "h2"), None, True, True),
    ]
    assert checked.config.mapped == {}
    assert {name: host.values for name, host in checked.config.hosts.items() if "tokens" in host.values} == {}
    assert checked.config.shared_on("h3").keys() == {"tokens"}


def test_a_host_whose_own_value_wins_over_the_map_shares_nothing():
    checked = cluster(HOSTS, ["lic (10@[all])"])
    assert checked.errors == []
    assert [(each.hosts, each.value) for each in checked.config.shared["lic"]] == [(("h2", "h3"), 10.0), (("h1",), 9.0)]
    assert [limit.name for limit in checked.config.shared_limits] == ["lic 0", "lic 1"]


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ("scrath ([default])", "resource scrath is not defined in lsf.shared; did you mean scratch?"),
        ("mem ([default])", "mem is a built-in resource that every host has; it cannot be mapped"),
        ("gpu ([h1])", "gpu is Boolean: name it in the RESOURCES of the hosts that have it"),
        ("scratch ()", "LOCATION is empty; every host has its own with ([default])"),
        ("scratch ([h9])", "scratch: host h9 is not defined in section Host"),
        ("scratch ([cl])", "scratch: host cl is a client (server 0) and runs no jobs"),
        ("scratch ([h1] [h1])", "scratch: host h1 is in two instances"),
        (
            "scratch ([default] [h1])",
            "scratch: [default] stands for every host and cannot be joined with other instances",
        ),
        ("scratch ([h1 all])", "scratch: 'all' cannot stand beside host names in 'h1 all'"),
        ("scratch ([all h1])", "scratch: only '~HOST' may follow all in 'all h1'"),
        ("scratch (5@[h1])", "scratch has an INTERVAL, so elims report it: '5@' is not wanted"),
        ("lic ([default])", "lic has no INTERVAL, so its value must be given: VALUE@[HOST ...]"),
        ("lic (x@[h1])", "'x' is not a number"),
    ],
)
def test_a_row_of_the_map_that_cannot_be_used(row, error):
    errors = cluster(HOSTS, [row]).errors
    assert len(errors) == 1
    assert errors[0].startswith(f"lsf.cluster.c1:10: {error}")


def test_a_resource_mapped_twice_and_one_mapped_nowhere():
    assert cluster(HOSTS, ["scratch ([h1])", "scratch ([h2])"]).errors == [
        "lsf.cluster.c1:11: resource scratch is mapped twice, and not alike (first at line 10)"
    ]
    again = cluster(HOSTS, ["scratch ([h1] [h2])", "scratch ([ h1 ][h2])"])
    assert again.errors == []
    assert (
        "lsf.cluster.c1:11: note: resource scratch is mapped again, as at line 10: this changes nothing" in again.notes
    )
    line = BASE["lsf.shared"].split("\n").index("scratch Numeric 30 N Y (free GB)") + 1
    assert f"lsf.shared:{line}: note: scratch is in no ResourceMap: no host has it" in cluster(HOSTS).notes
