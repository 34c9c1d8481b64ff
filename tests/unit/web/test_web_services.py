"""Services behind gsched's pages: their names, who is let in, and what of a request and an answer goes through."""

from __future__ import annotations

import pytest

from gsched.base.ids import element_id
from gsched.web.access.service_aliases import MOST_COOKIES, ServiceAliases
from gsched.web.access.sessions import IDLE_S, WebSession, WebSessions
from gsched.web.services import service_sessions
from gsched.web.services.service_headers import from_service, to_service
from gsched.web.services.service_names import ServicePlace, job_of_name, service_name
from gsched.web.services.service_sessions import TOKEN_S, ServiceSessions

ORIGIN = b"http://job-7.localhost:8080"


@pytest.mark.parametrize(
    ("job_id", "name"), [(17, "job-17.localhost"), (element_id(17, 3), "job-17-3.localhost"), (1, "job-1.localhost")]
)
def test_each_job_has_a_name_of_its_own(job_id: int, name: str) -> None:
    assert service_name(job_id) == name
    assert job_of_name(name) == job_of_name(f"{name}:8080") == job_of_name(name.upper()) == job_id


@pytest.mark.parametrize(
    "host",
    [
        *(
            "localhost",
            "job-.localhost",
            "job-0.localhost",
            "job-17.localhost.",
            "job-17.localhost.example:80",
            "job-17",
        ),
        *(
            "ajob-17.localhost",
            "x.job-17.localhost",
            "job-17.localhost:x",
            "job-17.localhost:",
            "job-99999999999.localhost",
        ),
        *("job-17-0.localhost", "job-1٧.localhost", "job-17.localhost\n", "job-17_3.localhost"),
    ],
)
def test_nothing_else_is_the_name_of_a_service(host: str) -> None:
    assert job_of_name(host) == 0


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_token_opens_one_job_once_and_soon() -> None:
    clock = Clock()
    sessions, pages = ServiceSessions(clock), WebSession(clock.now)
    token = sessions.new_token(7, pages)
    assert sessions.open(8, token) == "" and sessions.open(7, token) == "", "it was tried for another job"
    cookie = sessions.open(7, sessions.new_token(7, pages))
    assert sessions.find(7, cookie) is pages and sessions.find(8, cookie) is None and sessions.find(7, "") is None
    late = sessions.new_token(7, pages)
    clock.now += TOKEN_S + 1
    assert sessions.open(7, late) == ""
    assert sessions.find(7, cookie) is pages and pages.used_at == clock.now
    pages.is_over = True
    assert sessions.find(7, cookie) is None
    assert sessions.open(7, sessions.new_token(7, pages)) == ""


def test_there_are_so_many_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_sessions, "MOST_SESSIONS", 2)
    sessions, pages = ServiceSessions(), WebSession(0.0)
    cookies = [sessions.open(7, sessions.new_token(7, pages)) for _ in range(3)]
    assert [sessions.find(7, cookie) is not None for cookie in cookies] == [False, True, True]


def sent(*headers: tuple[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    return to_service(headers, ORIGIN, 20_001, "secret")


def told_browser(*headers: tuple[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    """What comes of the answer's own headers."""
    found = from_service(headers, 20_001)
    assert found[-2:] == [
        (b"cross-origin-resource-policy", b"same-origin"),
        (b"content-security-policy", b"frame-ancestors 'self'"),
    ]
    return found[:-2]


ALWAYS = [
    (b"host", b"localhost:20001"),
    (b"x-forwarded-host", b"job-7.localhost:8080"),
    (b"x-forwarded-proto", b"http"),
    (b"authorization", b"Bearer secret"),
]


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ((b"accept", b"text/html"), [(b"accept", b"text/html")]),
        ((b"cookie", b"gsched_a=1; own=2; GSCHED_b=3;  x=y"), [(b"cookie", b"own=2; x=y")]),
        ((b"cookie", b"gsched_a=1"), []),
        ((b"origin", ORIGIN), [(b"origin", b"http://localhost:20001")]),
        ((b"referer", ORIGIN + b"/a?b"), [(b"referer", b"http://localhost:20001/a?b")]),
        ((b"referer", b"http://127.0.0.1:8080/jobs/7"), []),
        ((b"referer", ORIGIN + b"0/a"), []),
        ((b"transfer-encoding", b"chunked"), []),
        ((b"x-forwarded-for", b"10.0.0.1"), []),
        ((b"forwarded", b"for=10.0.0.1"), []),
        ((b"te", b"trailers"), []),
        ((b"sec-websocket-key", b"abc"), []),
        ((b"proxy-authorization", b"Basic x"), []),
    ],
)
def test_what_a_service_is_told(header: tuple[bytes, bytes], told: list[tuple[bytes, bytes]]) -> None:
    assert sorted(sent((b"host", b"job-7.localhost:8080"), header)) == sorted([*ALWAYS, *told])


def test_headers_that_are_named_as_the_connections_stay_here() -> None:
    assert sorted(sent((b"connection", b"close, X-Secret"), (b"x-secret", b"1"))) == sorted(ALWAYS)


def test_a_length_does_not_count_beside_a_transfer_coding() -> None:
    both = ((b"Content-Length", b"4"), (b"Transfer-Encoding", b"chunked"))
    assert told_browser(*both) == []
    assert told_browser(*both[:1]) == [(b"content-length", b"4")]
    lower = tuple((name.lower(), value) for name, value in both)
    assert sorted(sent(*lower)) == sorted(ALWAYS)
    assert (b"content-length", b"4") in sent(*lower[:1])


def test_a_browsers_own_word_of_who_it_is_stays() -> None:
    told = sent((b"authorization", b"token mine"))
    assert [value for name, value in told if name == b"authorization"] == [b"token mine"]


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ((b"Content-Type", b"text/html"), [(b"content-type", b"text/html")]),
        (
            (b"Set-Cookie", b"own=1; Path=/; DOMAIN = localhost ; HttpOnly"),
            [(b"set-cookie", b"own=1; Path=/; HttpOnly")],
        ),
        ((b"Set-Cookie", b" gsched_a=1"), []),
        ((b"Set-Cookie", b"Gsched=1"), []),
        ((b"Connection", b"keep-alive"), []),
        ((b"Alt-Svc", b'h2="evil:443"'), []),
        ((b"Strict-Transport-Security", b"max-age=1"), []),
        ((b"Cross-Origin-Resource-Policy", b"cross-origin"), []),
        ((b"Content-Security-Policy", b"frame-ancestors *"), [(b"content-security-policy", b"frame-ancestors*")]),
        ((b"Location", b"/a"), [(b"location", b"/a")]),
        ((b"Location", b"http://localhost:20001/a?b"), [(b"location", b"/a?b")]),
        ((b"Location", b"http://127.0.0.1:20001"), [(b"location", b"/")]),
        ((b"Location", b"http://localhost:20001//evil.example/"), [(b"location", b"/evil.example/")]),
        ((b"Location", b"http://localhost:200012/"), [(b"location", b"http://localhost:200012/")]),
        ((b"Location", b"http://example.org/"), [(b"location", b"http://example.org/")]),
    ],
)
def test_what_a_browser_gets_of_an_answer(header: tuple[bytes, bytes], told: list[tuple[bytes, bytes]]) -> None:
    found = told_browser(header)
    assert [(name, b"".join(value.split())) for name, value in found] == [
        (name, b"".join(value.split())) for name, value in told
    ]


def test_in_a_shared_cluster_services_are_below_names_of_the_site() -> None:
    place = ServicePlace("https", ("gpu.example.org", "gpu"))
    assert place.job_of(["job-17.gpu.example.org:8443"]) == place.job_of(["JOB-17.GPU"]) == 17
    assert place.job_of(["job-17.localhost"]) == place.job_of(["job-17.evil.example"]) == 0
    assert place.job_of(["job-17.gpu", "job-17.gpu"]) == place.job_of(["gpu"]) == place.job_of([]) == 0
    assert place.job_of(["job-17.evil.gpu.example.org"]) == 0
    assert place.origin(17, "gpu:8443") == "https://job-17.gpu:8443"
    assert place.origin(17, "GPU.example.org") == "https://job-17.gpu.example.org"
    assert place.origin(17, "10.0.0.1:8443") == "https://job-17.gpu.example.org:8443"


def test_a_service_never_sets_a_cookie_of_gscheds() -> None:
    for line in (b"__Host-gsched_service=x", b"__host-GSCHED=x", b"gsched_a=x", b" =gsched_a=x", b"=__Host-gsched=x"):
        assert told_browser((b"set-cookie", line)) == []
    sent = to_service([(b"cookie", b"__Host-gsched_service=s; own=1")], b"https://job-1.gpu", 80, "secret")
    assert (b"cookie", b"own=1") in sent


def test_a_service_is_told_nothing_of_the_session() -> None:
    sent = to_service([(b"gsched-csrf", b"x"), (b"gsched-service-alias", b"y")], b"https://job-1.gpu", 80, "secret")
    assert not [name for name, _ in sent if name.startswith(b"gsched-")]


def test_a_session_goes_on_as_long_as_it_is_used() -> None:
    now = [0.0]
    sessions = WebSessions(lambda: now[0])
    session, used, proven = (
        sessions.find(sessions.begin("ann")),
        sessions.find(sessions.begin("ann")),
        sessions.of("bob"),
    )
    assert session is not None and used is not None
    now[0] += IDLE_S - 1
    assert sessions.goes_on(session) and sessions.goes_on(used) and session.used_at == 0, "to ask is no use of it"
    sessions.use(used)
    now[0] += 2
    assert not sessions.goes_on(session) and session.is_over
    assert sessions.goes_on(used)
    assert sessions.goes_on(proven), "a proxy proves anew each time"
    sessions.end_all("bob")
    assert not sessions.goes_on(proven)


def test_an_alias_is_for_one_token_or_one_cookie() -> None:
    aliases, session = ServiceAliases(), WebSession(0.0, "ann")
    token, cookie = aliases.for_token(session), aliases.for_cookie(session)
    assert aliases.of_token(cookie) is aliases.of_cookie(token) is aliases.of_cookie("") is None
    assert aliases.of_cookie(cookie) is aliases.of_cookie(cookie) is session
    assert aliases.of_token(token) is session and aliases.of_token(token) is None, "it works once"


def test_a_session_has_so_many_aliases_at_most() -> None:
    aliases, session, others = ServiceAliases(), WebSession(0.0, "ann"), WebSession(0.0, "bob")
    his, used, unused = aliases.for_cookie(others), aliases.for_cookie(session), aliases.for_cookie(session)
    for _ in range(MOST_COOKIES - 1):
        assert aliases.of_cookie(used) is session
        aliases.for_cookie(session)
    assert aliases.of_cookie(unused) is None, "the one that was used the longest ago"
    assert aliases.of_cookie(used) is session and aliases.of_cookie(his) is others


def test_a_cookie_begins_with_what_the_front_wants() -> None:
    sessions, pages = ServiceSessions(), WebSession(0.0)
    token = sessions.new_token(7, pages, "one")
    cookie = sessions.open(7, token, "two")
    assert token.startswith("one.") and cookie.startswith("two.") and sessions.find(7, cookie) is pages
    assert sessions.find(7, cookie.partition(".")[2]) is None
    assert "." not in sessions.new_token(7, pages)
