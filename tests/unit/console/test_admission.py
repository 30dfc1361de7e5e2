"""What is refused before Django sees it: rates by address, sizes of bodies, requests in progress."""

import asyncio
import json
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisAway

from console.http.admission import Admission, Limits
from console.http.rate_limits import KEYS_MAX, REST_SECONDS, RateLimit, network_of
from console.http.verified import VerifiedCredentials
from tests.support.manual_clock import ManualClock

TOKEN = (b"authorization", b"Bearer qmq_token")
SESSION = (b"cookie", b"theme=dark; qmq_session=key")


class App:
    """Reads the body as Django does and answers 200; or 401 to credentials it does not know."""

    def __init__(self, credentials: VerifiedCredentials) -> None:
        self.requests = 0
        self.body_bytes = 0
        self.known: set[bytes] = set()
        self.credentials = credentials
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.requests += 1
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
            return
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            self.body_bytes += len(message["body"])
            if not message["more_body"]:
                break
        await self.may_answer.wait()
        given = [value for name, value in scope["headers"] if name in (b"authorization", b"cookie")]
        is_known = bool(given) and given[0] in self.known
        if is_known:
            self.credentials.add(given[0].decode().rpartition(" ")[2].removeprefix("qmq_session="))
        await send({"type": "http.response.start", "status": 200 if is_known else 401, "headers": []})
        await send({"type": "http.response.body", "body": b"x"})


class Answer:
    def __init__(self) -> None:
        self.messages: list[Any] = []

    async def send(self, message: Any) -> None:
        self.messages.append(message)

    @property
    def status(self) -> int:
        return int(self.messages[0]["status"])

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.messages[0]["headers"]}

    @property
    def body(self) -> Any:
        return json.loads(b"".join(message["body"] for message in self.messages[1:]))


class Console:
    def __init__(self, shared: Any = None, **limits: Any) -> None:
        self.clock = ManualClock()
        self.credentials = VerifiedCredentials(clock=self.clock)
        self.app = App(self.credentials)
        self.admission = Admission(
            self.app, limits=Limits(**limits), clock=self.clock, shared=shared, credentials=self.credentials
        )
        self.sent_chunks = 0

    async def ask(
        self,
        *headers: tuple[bytes, bytes],
        address: str = "192.0.2.1",
        path: str = "/api/v1/subjects/",
        chunks: Any = (b"",),
        kind: str = "http",
    ) -> Answer:
        """One request; `chunks` are those of its body."""
        answer = Answer()
        rest = iter(chunks)
        pending = [next(rest)]

        async def receive() -> Any:
            if kind == "websocket":
                return {"type": "websocket.connect"}
            if not pending:
                return {"type": "http.disconnect"}
            chunk = pending.pop()
            pending.extend([following for following in [next(rest, None)] if following is not None])
            self.sent_chunks += 1
            return {"type": "http.request", "body": chunk, "more_body": bool(pending)}

        extensions = {"websocket.http.response": {}} if kind == "websocket" else {}
        scope = {"type": kind, "path": path, "headers": list(headers), "client": (address, 5), "extensions": extensions}
        await self.admission(scope, receive, answer.send)
        return answer


@pytest.fixture(autouse=True)
def _session_cookie(settings: Any) -> None:
    settings.SESSION_COOKIE_NAME = "qmq_session"


# --- rates by address -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("headers", [(), (TOKEN,), (SESSION,)])
async def test_of_1500_requests_without_a_valid_credential_600_reach_django(headers: Any) -> None:
    console = Console()
    statuses = [(await console.ask(*headers)).status for _ in range(1_500)]
    assert statuses == [401] * 600 + [429] * 900
    assert console.app.requests == 600
    refused = await console.ask(*headers)
    assert (refused.body["code"], refused.headers["content-type"]) == ("request.throttled", "application/problem+json")
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert (await console.ask(*headers, address="192.0.2.2")).status == 401, "counted by address"
    console.clock.advance(60)
    assert (await console.ask(*headers)).status == 401


@pytest.mark.parametrize("header", [TOKEN, SESSION])
async def test_a_credential_that_authenticated_is_not_counted_by_its_address(header: tuple[bytes, bytes]) -> None:
    console = Console(unverified_per_minute=5)
    console.app.known.add(header[1])
    assert [(await console.ask(header)).status for _ in range(20)] == [200] * 20
    assert [(await console.ask()).status for _ in range(6)] == [401] * 4 + [429] * 2
    assert (await console.ask(header)).status == 200, "others of its address do not shut it out"
    console.app.known.clear()
    statuses = [(await console.ask(header)).status for _ in range(3)]
    assert statuses == [401, 429, 429], "a revoked one is counted again after its first 401"


async def test_what_django_would_read_as_another_credential_is_not_taken_for_a_verified_one() -> None:
    console = Console(unverified_per_minute=3)
    console.app.known.add(TOKEN[1])
    await console.ask(TOKEN)
    twice = [(b"authorization", b"Bearer qmq_wrong"), TOKEN]
    assert [(await console.ask(*twice)).status for _ in range(3)] == [401, 401, 429]
    offered = (b"sec-websocket-protocol", b"qmq, bearer.qmq_token")
    assert (await console.ask(offered)).status == 429, "a subprotocol counts in handshakes only"


async def test_handshakes_are_counted_too() -> None:
    console = Console(unverified_per_minute=3, handshakes_per_minute=2)
    anonymous = [await console.ask(path="/ws/lag/", kind="websocket") for _ in range(4)]
    assert [answer.messages[0]["type"] for answer in anonymous[:3]] == ["websocket.accept"] * 3
    assert (anonymous[3].messages[0]["type"], anonymous[3].status) == ("websocket.http.response.start", 429)
    console.credentials.add("qmq_token")
    offered = (b"sec-websocket-protocol", b"qmq, bearer.qmq_token")
    known = [await console.ask(offered, path="/ws/lag/", kind="websocket") for _ in range(3)]
    assert [answer.messages[0]["type"] for answer in known[:2]] == ["websocket.accept"] * 2
    assert known[2].status == 429


async def test_files_and_the_health_page_are_not_counted() -> None:
    console = Console(unverified_per_minute=1)
    for _ in range(5):
        await console.ask(path="/static/assets/main.js")
        await console.ask(path="/healthz")
    assert console.app.requests == 10
    assert [(await console.ask(SESSION, path="/healthz")).status for _ in range(2)] == [401, 429], "this takes a query"


class Shared:
    """Counts that several processes share; `failure` is raised instead."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.calls = 0
        self.failure: Exception | None = None

    async def increase(self, key: str) -> int:
        self.calls += 1
        if self.failure is not None:
            raise self.failure
        self.counts[key] = self.counts.get(key, 0) + 1
        return self.counts[key]


async def test_processes_share_their_counts_and_a_flood_is_refused_without_redis() -> None:
    shared = Shared()
    clock = ManualClock()
    one, other = (RateLimit("address", 10, clock, shared) for _ in range(2))
    found = [await limit.admit("a") for _ in range(6) for limit in (one, other)]
    assert [wait is None for wait in found] == [True] * 10 + [False] * 2
    calls = shared.calls
    for _ in range(1_000):
        assert await one.admit("a") is not None
        assert await other.admit("a") is not None
    assert shared.calls == calls


async def test_without_redis_each_process_counts_alone_and_redis_rests(caplog: Any) -> None:
    shared = Shared()
    shared.failure = RedisAway("gone")
    clock = ManualClock()
    limit = RateLimit("address", 10, clock, shared)
    found = [await limit.admit("a") for _ in range(15)]
    assert [wait is None for wait in found] == [True] * 10 + [False] * 5
    assert (shared.calls, len(caplog.records)) == (1, 1)
    clock.advance(REST_SECONDS)
    await limit.admit("b")
    assert shared.calls == 2


async def test_keys_are_bounded() -> None:
    limit = RateLimit("address", 1, ManualClock())
    await limit.admit("first")
    for number in range(KEYS_MAX):
        await limit.admit(str(number))
    assert await limit.admit("first") is None
    assert await limit.admit(str(KEYS_MAX - 1)) is not None


def test_credentials_are_bounded_and_forgotten() -> None:
    clock = ManualClock()
    credentials = VerifiedCredentials(2, clock)
    for name in ("a", "b", "c"):
        credentials.add(name)
    assert [name in credentials for name in ("a", "b", "c")] == [False, True, True]
    clock.advance(301)
    assert "c" not in credentials


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("192.0.2.1", "192.0.2.1"), ("::ffff:192.0.2.1", "192.0.2.1"), ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"), ("fe80::1%eth0", "fe80::/64"), ("", ""), ("x" * 99, "x" * 64),
    ],
)  # fmt: skip
def test_the_addresses_that_one_user_may_choose_from_are_one(address: str, key: str) -> None:
    assert network_of(address) == key


# --- bodies -----------------------------------------------------------------------------------------------------------


async def test_a_declared_length_above_the_limit_is_refused_unread() -> None:
    console = Console(body_bytes_max=100)
    answer = await console.ask((b"content-length", b"3000000000"), chunks=[b"x" * 10] * 3)
    assert (answer.status, answer.body["code"], console.app.requests) == (413, "request.too_large", 0)
    assert answer.headers["connection"] == "close"
    assert answer.messages[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


async def test_chunks_are_counted_and_django_gets_no_more_than_the_limit() -> None:
    console = Console(body_bytes_max=100, linger_bytes_max=1_000)
    answer = await console.ask(chunks=(b"x" * 10 for _ in range(1_000_000)))
    assert (answer.status, answer.headers["connection"]) == (413, "close")
    assert console.app.body_bytes == 100
    assert console.sent_chunks <= 11 + 100, "of the rest only so much is read as lets the client see the answer"
    assert (console.admission.bodies.total, console.admission.bodies.by_address) == (0, {})


async def test_a_body_of_the_limit_passes() -> None:
    console = Console(body_bytes_max=100)
    console.app.known.add(TOKEN[1])
    assert (await console.ask(TOKEN, (b"content-length", b"100"), chunks=[b"x" * 100])).status == 200


async def test_bodies_in_progress_are_bounded_in_all_and_by_address() -> None:
    console = Console(bodies_bytes_max=100, bodies_of_address_bytes_max=60)
    console.app.may_answer.clear()
    first = asyncio.create_task(console.ask(chunks=[b"x" * 50]))
    await asyncio.sleep(0)
    assert (await console.ask(chunks=[b"x" * 20])).status == 503
    second = asyncio.create_task(console.ask(chunks=[b"x" * 40], address="192.0.2.2"))
    await asyncio.sleep(0)
    refused = await console.ask(chunks=[b"x" * 20], address="192.0.2.3")
    assert (refused.status, refused.body["code"]) == (503, "server.busy")
    console.app.may_answer.set()
    assert [(await task).status for task in (first, second)] == [401, 401]
    assert (console.admission.bodies.total, console.admission.bodies.by_address) == (0, {})


# --- requests in progress ---------------------------------------------------------------------------------------------


async def test_so_many_requests_are_worked_on_and_so_many_wait() -> None:
    console = Console(requests_max=3, waiting_max=2)
    console.app.may_answer.clear()
    tasks = [asyncio.create_task(console.ask()) for _ in range(6)]
    done, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    assert [task.result().status for task in done] == [503]
    assert next(iter(done)).result().headers["retry-after"] == "1"
    console.app.may_answer.set()
    assert [(await task).status for task in waiting] == [401] * 5


async def test_who_waits_too_long_is_refused() -> None:
    console = Console(requests_max=1, wait_seconds=0)
    console.app.may_answer.clear()
    first = asyncio.create_task(console.ask())
    await asyncio.sleep(0)
    assert (await console.ask()).status == 503
    console.app.may_answer.set()
    assert (await first).status == 401
    assert (await console.ask()).status == 401, "places come back"


async def test_a_body_that_comes_slowly_takes_no_place() -> None:
    console = Console(requests_max=1, wait_seconds=0)
    more = asyncio.Event()
    answer = Answer()
    messages = iter([{"type": "http.request", "body": b"x", "more_body": True}])

    async def receive() -> Any:
        for message in messages:
            return message
        await more.wait()
        return {"type": "http.disconnect"}

    scope = {"type": "http", "path": "/x", "headers": [], "client": ("192.0.2.1", 5)}
    slow = asyncio.create_task(console.admission(scope, receive, answer.send))
    await asyncio.sleep(0)
    assert (await console.ask()).status == 401
    more.set()
    await slow
    assert answer.messages == []


async def test_who_reads_slowly_takes_no_place() -> None:
    console = Console(requests_max=1, wait_seconds=0)
    may_read = asyncio.Event()

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            await may_read.wait()

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {"type": "http", "path": "/x", "headers": [], "client": ("192.0.2.1", 5)}
    slow = asyncio.create_task(console.admission(scope, receive, send))
    await asyncio.sleep(0)
    assert (await console.ask()).status == 401
    may_read.set()
    await slow


async def test_the_health_page_needs_no_place() -> None:
    console = Console(requests_max=1, wait_seconds=0)
    console.app.may_answer.clear()
    busy = asyncio.create_task(console.ask())
    health = asyncio.create_task(console.ask(path="/healthz"))
    await asyncio.sleep(0)
    console.app.may_answer.set()
    assert [(await task).status for task in (busy, health)] == [401, 401]
