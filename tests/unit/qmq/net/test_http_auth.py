"""Signed HTTP requests: what is accepted, once, and for how long."""

import itertools
import re

import pytest

from qmq.net.http_auth import SCHEME, Challenges, RequestSigner
from qmq.net.node_secret import NodeSecret
from tests.support.manual_clock import ManualClock

OLD, NEW = "old-" + "a" * 32, "new-" + "b" * 32
SERVER = "127.0.0.1:20981"


def secret(text: str = OLD) -> NodeSecret:
    return NodeSecret.parse(text, "x")


def challenges(clock: ManualClock | None = None, *, text: str = OLD, first: int = 1) -> Challenges:
    """A server; `first` makes its random numbers, and so its key, differ from another's."""
    numbers = itertools.count(first)
    return Challenges(secret(text), clock or ManualClock(), random=lambda size: next(numbers).to_bytes(size, "big"))


def signer(server: Challenges, text: str = OLD) -> RequestSigner:
    client = RequestSigner(secret(text))
    assert client.header(SERVER, "GET", "/", b"") == ""
    assert client.learn(SERVER, server.challenge())
    return client


def test_a_signed_request_is_accepted_and_no_other() -> None:
    server = challenges()
    client = signer(server)
    header = client.header(SERVER, "POST", "/a?b=c", b"{}")
    for method, target, body in (
        ("PUT", "/a?b=c", b"{}"),
        ("GET", "/a?b=c", b"{}"),
        ("POST", "/a?b=d", b"{}"),
        ("POST", "/a", b"{}"),
        ("POST", "/a?b=c", b"{} "),
    ):
        assert not server.accept(header, method, target, body)
    changed = re.sub(r'counter="1"', 'counter="2"', header)
    assert changed != header
    assert not server.accept(changed, "POST", "/a?b=c", b"{}")
    assert server.accept(header, "POST", "/a?b=c", b"{}")


def test_a_change_is_accepted_once_and_a_reading_again() -> None:
    server = challenges()
    client = signer(server)
    get = client.header(SERVER, "GET", "/", b"")
    assert [server.accept(get, "GET", "/", b"") for _ in range(3)] == [True, True, True]
    post = client.header(SERVER, "POST", "/", b"")
    assert [server.accept(post, "POST", "/", b"") for _ in range(3)] == [True, False, False]
    assert server.accept(client.header(SERVER, "POST", "/", b""), "POST", "/", b""), "the next counter"


def test_requests_may_come_in_any_order() -> None:
    server = challenges()
    client = signer(server)
    first, second = (client.header(SERVER, "POST", "/", b"") for _ in range(2))
    assert server.accept(second, "POST", "/", b"")
    assert server.accept(first, "POST", "/", b"")


def test_another_process_does_not_accept_a_recorded_request() -> None:
    server, restarted = challenges(first=1), challenges(first=100)
    header = signer(server).header(SERVER, "POST", "/", b"")
    assert not restarted.may_be_valid(header)
    assert not restarted.accept(header, "POST", "/", b"")


def test_a_nonce_expires_and_what_was_used_with_it_is_forgotten_not_before() -> None:
    clock = ManualClock()
    server = challenges(clock)
    client = signer(server)
    clock.advance(299)
    header = client.header(SERVER, "POST", "/", b"")
    assert server.accept(header, "POST", "/", b"")
    clock.advance(1)
    assert not server.accept(header, "POST", "/", b""), "still remembered"
    clock.advance(1)
    assert not server.may_be_valid(header)
    assert client.learn(SERVER, server.challenge())
    clock.advance(299)
    assert server.accept(client.header(SERVER, "POST", "/", b""), "POST", "/", b"")
    assert len(server._used) == 1, "the first one was forgotten"


def test_what_is_remembered_is_bounded_and_nothing_is_accepted_twice_at_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("qmq.net.http_auth.USED_MAX", 3)
    server = challenges()
    client = signer(server)
    headers = [client.header(SERVER, "POST", "/", b"") for _ in range(4)]
    assert [server.accept(header, "POST", "/", b"") for header in headers] == [True, True, True, False]
    assert len(server._used) == 0
    assert not any(server.accept(header, "POST", "/", b"") for header in headers)
    assert client.learn(SERVER, server.challenge())
    assert server.accept(client.header(SERVER, "POST", "/", b""), "POST", "/", b"")


def test_secrets_may_be_replaced_one_process_after_the_other() -> None:
    for server_text, client_text in ((f"{OLD},{NEW}", OLD), (f"{OLD},{NEW}", NEW), (NEW, f"{NEW},{OLD}")):
        server = challenges(text=server_text)
        assert server.accept(signer(server, client_text).header(SERVER, "GET", "/", b""), "GET", "/", b"")
    server = challenges(text=NEW)
    assert not server.accept(signer(server, OLD).header(SERVER, "GET", "/", b""), "GET", "/", b"")


@pytest.mark.parametrize(
    "header",
    [
        "",
        SCHEME,
        "Bearer x",
        "x" * 100_000,
        f'{SCHEME} nonce="", counter="", mac=""',
        f'{SCHEME} nonce="1.2.3", counter="1", mac="00"',
        f'{SCHEME} nonce="{"0" * 16}.{"0" * 32}.{"0" * 64}", counter="{"9" * 19}", mac="{"0" * 64}"',
    ],
)
def test_what_is_no_proof_is_refused(header: str) -> None:
    server = challenges()
    assert not server.may_be_valid(header)
    assert not server.accept(header, "GET", "/", b"")


@pytest.mark.parametrize("challenge", ["", "Basic", f'{SCHEME} nonce="x"', f'{SCHEME} nonce="1\r\nX: y"'])
def test_a_client_learns_from_challenges_only(challenge: str) -> None:
    client = RequestSigner(secret())
    assert not client.learn(SERVER, challenge)
    assert client.header(SERVER, "GET", "/", b"") == ""


def test_a_client_remembers_a_limited_number_of_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qmq.net.http_auth.SERVERS_MAX", 2)
    client, server = RequestSigner(secret()), challenges()
    for name in ("a:1", "b:1", "c:1"):
        assert client.learn(name, server.challenge())
    assert [bool(client.header(name, "GET", "/", b"")) for name in ("a:1", "b:1", "c:1")] == [False, True, True]


def test_the_secret_is_in_no_header() -> None:
    server = challenges()
    assert OLD not in server.challenge() + signer(server).header(SERVER, "GET", "/", b"")
