"""Hosts whose agents are not root's: whose jobs get there, and what is said of it."""

from __future__ import annotations

from core_world import World, make_config

from gsched.base.coded_text import sentence
from gsched.core.dispatch.host_queue_views import host_view
from gsched.model.config import ClusterConfig, Network


def world(config: ClusterConfig) -> World:
    found = World(config, connect=False)
    found.connect("a", only_user="ann")
    return found


def test_others_wait_until_an_agent_of_root_is_there() -> None:
    shared = world(make_config(network=Network(port=6881)))
    own, foreign = shared.submit(user="ann"), shared.submit(user="bob")
    shared.settle()
    assert shared.state(own[0]) == "RUN" and shared.state(foreign[0]) == "PEND"
    assert shared.reasons(foreign[0]) == ("Agent runs only jobs of user ann: 1 host (job of user bob, a)",)
    engine, config = shared.engine, shared.config
    view = host_view(config.hosts["a"], config, engine.state, engine.observations.of("a"))
    assert "the agent is not root's: it runs only jobs of user ann" in map(sentence, view.notes)
    shared.disconnect("a")
    shared.connect("a", held=[(own[0], 1)])
    shared.settle()
    assert shared.state(foreign[0]) == "RUN"


def test_force_does_not_help_where_the_agent_cannot_start_it() -> None:
    shared = world(make_config(network=Network(port=6881)))
    (foreign,) = shared.submit(user="bob")
    assert shared.order("run", foreign, user="root", hosts=("a",)) == [""]
    shared.settle()
    assert shared.state(foreign) == "PEND"
    shared.disconnect("a")
    shared.connect("a")
    shared.settle()
    assert shared.state(foreign) == "RUN"


def test_a_private_cluster_does_not_look_at_users() -> None:
    private = world(make_config())
    assert private.engine.snapshot(private.now).hosts["a"].only_user == ""
