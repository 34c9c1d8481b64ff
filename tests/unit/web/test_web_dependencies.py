"""The graph of what a job waits for and what waits for it."""

from __future__ import annotations

from fake_master import FakeMaster, spec
from hypothesis import given
from hypothesis import strategies as st
from served_pages import Pages

from gsched.base.ids import element_id
from gsched.model.views.view import JobView
from gsched.web.mirror.awaited_jobs import Awaited, awaited_by
from gsched.web.mirror.job_rows import MirroredJob, row_of
from gsched.web.shown.dependency_graph import DEPTH, HEIGHT, MOST_NODES, WIDTH, DependencyGraph, graph_of


def view(job_id: int, conditions: str = "", state: str = "PEND") -> JobView:
    wanted = spec(conditions=conditions, dependency=conditions)
    return JobView(job_id=job_id, spec=wanted, state=state, submitted_at=1.0)


def rows(*views: JobView) -> list[MirroredJob]:
    return [row_of(each) for each in views]


def levels(graph: DependencyGraph | None) -> dict[int, int]:
    assert graph is not None
    return {node.number: node.level for node in graph.nodes}


def test_conditions_name_jobs_and_elements() -> None:
    assert awaited_by('done(5) && exit(6[3], > 2) || ended(7[*]) && done(5) && external(8, "x(9)")') == (
        Awaited("done", 5),
        Awaited("exit", element_id(6, 3)),
        Awaited("ended", 7),
        Awaited("external", 8),
        Awaited("x", 9),
    )


def test_before_and_behind_some_steps_far() -> None:
    chain = rows(*(view(number, f"done({number - 1})" if number > 1 else "") for number in range(1, 12)))
    graph = graph_of(6, "done(5)", chain)
    assert levels(graph) == {number: number - 6 for number in range(6 - DEPTH, 6 + DEPTH + 1)}
    assert graph is not None and graph.is_cut
    assert [(edge.after.number, edge.first.number) for edge in graph.before] == [(6, 5), (5, 4), (4, 3)]
    assert [(edge.after.number, edge.kinds) for edge in graph.behind] == [(n, ("done",)) for n in (7, 8, 9)]


def test_a_job_alone_has_no_graph() -> None:
    assert graph_of(1, "", rows(view(1), view(2))) is None


def test_an_array_is_one_node_and_what_is_gone_is_said_to_be() -> None:
    elements = [view(element_id(4, index), "done(3)", "RUN" if index == 1 else "PEND") for index in (1, 2, 3)]
    graph = graph_of(3, "done(2)", rows(view(3, "done(2)", "DONE"), *elements, view(5, "ended(4)")))
    assert levels(graph) == {2: -1, 3: 0, 4: 1, 5: 2} and graph is not None
    nodes = {node.number: node for node in graph.nodes}
    assert (nodes[4].count, nodes[4].state, nodes[2].state) == (3, "PEND", "")
    assert levels(graph_of(element_id(4, 2), "done(3)", rows(*elements, view(5, "ended(4)")))) == {
        3: -1,
        element_id(4, 2): 0,
        5: 1,
    }


@given(st.dictionaries(st.integers(1, 60), st.sets(st.integers(1, 60), max_size=8), max_size=60))
def test_it_is_bounded_and_nothing_overlaps(waits: dict[int, set[int]]) -> None:
    known = {number: " && ".join(f"done({each})" for each in sorted(of)) for number, of in waits.items()}
    graph = graph_of(1, known.get(1, ""), rows(*(view(number, text) for number, text in known.items())))
    if graph is None:
        return
    assert len(graph.nodes) <= MOST_NODES
    assert len({(node.x, node.y) for node in graph.nodes}) == len(graph.nodes)
    for node in graph.nodes:
        assert node.x + WIDTH <= graph.width and node.y + HEIGHT <= graph.height
    assert {edge.first.number for edge in graph.edges} <= {node.number for node in graph.nodes}


def test_names_in_it_are_text(master: FakeMaster, pages: Pages) -> None:
    one = JobView(job_id=7, spec=spec(name="<script>x"), state="RUN", submitted_at=1.0, dispatched_at=2.0)
    master.views = [one, view(8, "done(7)")]
    pages.until(lambda: pages.context.mirror.version >= 5, "the threads have not looked yet")
    pages.context.mirror._rows = {each.job_id: row_of(each) for each in master.views}
    text = pages.get("/jobs/8").text
    assert '<svg class="graph"' in text and "&lt;script&gt;x" in text and "<script>x" not in text
    assert 'href="/jobs/7"' in text and "after (done)" in text
