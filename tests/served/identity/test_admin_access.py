"""Admin HTTP servers with a node secret: signed requests only, but for the health pages and what clients ask."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from broker_node.broker import Broker
from delay_node.delay_node import DelayNode
from delay_node.options import DelayOptions
from metaserver.options import MetaOptions
from metaserver.server import Metaserver
from qmq.net.discovery import http_get, http_post_json
from qmq.net.http_auth import SCHEME, RequestSigner
from qmq.net.node_secret import NodeSecret
from qmq.node_admin import NodeAdmin, NodeRefused
from qmq_testing.repository import MemoryRepository
from tests.served.identity.requests import request
from tests.support.drivers.in_process import connected, get_json, message, running_broker

SECRET = "first-secret-of-the-tests-0123456789abcdef"
OTHER = "other-secret-of-the-tests-0123456789abcdef"
HOST = {"Host": "127.0.0.1"}


def signer(text: str = SECRET) -> RequestSigner:
    return RequestSigner(NodeSecret.parse(text, "x"))


def admin_of(broker: Broker, secret: RequestSigner | None) -> NodeAdmin:
    return NodeAdmin("{}:{}".format(*broker.admin.address), timeout_seconds=20, signer=secret)


async def test_pages_and_changes_of_a_broker_require_the_secret(tmp_path: Path) -> None:
    async with running_broker(tmp_path, node_token=SECRET) as broker, connected(broker) as client:
        await client.send(message(1))
        assert (await client.pull())[1] == []  # the group begins at the end
        for refused in (admin_of(broker, None), admin_of(broker, signer(OTHER))):
            for ask in (
                refused.stats(),
                refused.messages("orders"),
                refused.reset("orders", "g", "earliest"),
                refused.forget("orders", "g", force=True),
            ):
                with pytest.raises(NodeRefused, match="QMQ_NODE_TOKEN") as caught:
                    await ask
                assert (caught.value.status, caught.value.code) == (401, "auth.required")
        for page in ("/healthz", "/readyz"):
            assert (await get_json(broker, page))[1]["status"] == "ok"
        ours = admin_of(broker, signer())
        assert (await ours.stats())["broker_group"] == "g1"
        assert len((await ours.messages("orders", limit=1))["messages"]) == 1
        assert (await ours.group("orders", "g"))["next_sequence"] == 1
        assert (await ours.reset("orders", "g", "earliest"))["done"]


async def test_a_delay_node_requires_it_too(tmp_path: Path) -> None:
    options = DelayOptions(data_dir=str(tmp_path / "d1"), port=0, admin_port=0, meta="", node_token=SECRET)
    node = DelayNode(options)
    await node.start()
    try:
        address = "http://{}:{}".format(*node.admin.address)
        for path in ("/stats", "/delayed", "/calendar"):
            assert (await http_get(f"{address}{path}", timeout_s=20))[0] == 401
            assert (await http_get(f"{address}{path}?subject=s", timeout_s=20, signer=signer()))[0] == 200
        cancel = f"{address}/delayed/bulk-cancel"
        assert (await http_post_json(cancel, b'{"subject": "s", "all": true}', timeout_s=20))[0] == 401
        assert (await http_post_json(cancel, b'{"subject": "s", "all": true}', timeout_s=20, signer=signer()))[0] == 200
    finally:
        await node.close()


async def test_the_metaserver_keeps_open_what_clients_ask(tmp_path: Path) -> None:
    options = MetaOptions(data_dir=str(tmp_path), http_port=0, tcp_port=0, node_token=SECRET)
    metaserver = Metaserver(options, MemoryRepository())
    await metaserver.start()
    try:
        address = "http://{}:{}".format(*metaserver.admin.address)
        for path in ("/meta/address", "/meta/delay-groups", "/healthz", "/readyz"):
            assert (await http_get(f"{address}{path}", timeout_s=20))[0] == 200
            assert (await request(metaserver.admin.address, path, {"Host": "meta.example"}))[0] == 200
        for path in ("/meta/cluster", "/meta/subjects", "/meta/subjects/orders", "/nothing", "/meta/address/"):
            assert (await http_get(f"{address}{path}", timeout_s=20))[0] == 401
        assert (await http_get(f"{address}/meta/cluster", timeout_s=20, signer=signer()))[0] == 200
        assert (await http_get(f"{address}/nothing", timeout_s=20, signer=signer()))[0] == 404
    finally:
        await metaserver.close()


async def test_a_recorded_change_is_not_executed_again(tmp_path: Path) -> None:
    async with recording() as (recorded, forward), running_broker(tmp_path, node_token=SECRET) as broker:
        forward[:] = broker.admin.address
        async with connected(broker) as client:
            await client.send(message(1))
        admin = NodeAdmin(f"127.0.0.1:{forward_port(recorded)}", timeout_seconds=20, signer=signer())
        assert (await admin.reset("orders", "g", "latest"))["done"]
        challenged, executed = recorded[1:]
        assert b"Authorization" not in challenged
        assert SCHEME.encode() in executed
        for raw in (executed, executed.replace(b'"latest"', b'"lattes"'), executed.replace(b"/orders/", b"/others/")):
            reader, writer = await asyncio.open_connection(*broker.admin.address)
            writer.write(raw)
            assert (await reader.read()).split()[1] == b"401"
            writer.close()
            await writer.wait_closed()
        assert all(SECRET.encode() not in raw for raw in recorded[1:]), "the secret does not cross the wire"


def forward_port(recorded: list[bytes]) -> int:
    return int(recorded[0])


@asynccontextmanager
async def recording() -> AsyncIterator[tuple[list[bytes], list[Any]]]:
    """A proxy that keeps requests: its port and they, and where it forwards to."""
    recorded: list[bytes] = []
    target: list[Any] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
        )
        recorded.append(head + await reader.readexactly(length))
        back, forth = await asyncio.open_connection(*target)
        forth.write(recorded[-1])
        writer.write(await back.read())
        for end in (forth, writer):
            end.close()
            await end.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    recorded.append(str(server.sockets[0].getsockname()[1]).encode())
    async with server:
        yield recorded, target


async def test_an_unsigned_body_is_not_read(tmp_path: Path) -> None:
    """A request that can't be valid is answered by its head alone."""
    head = "POST /subjects/s/groups/g/reset HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    async with running_broker(tmp_path, node_token=SECRET) as broker:
        for fields in (
            "",
            f'Authorization: {SCHEME} nonce="1.{"0" * 32}.{"0" * 64}", counter="1", mac="{"0" * 64}"\r\n',
        ):
            reader, writer = await asyncio.open_connection(*broker.admin.address)
            writer.write(f"{head}{fields}Content-Length: 60000\r\n\r\n".encode())
            assert (await reader.readline()).split()[1] == b"401"
            writer.close()
            await writer.wait_closed()


async def test_a_wrong_secret_is_logged_and_a_client_that_needs_a_challenge_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    outdated = f'{SCHEME} nonce="1.{"0" * 32}.{"0" * 64}", counter="1", mac="{"0" * 64}"'
    async with running_broker(tmp_path, node_token=SECRET) as broker:
        await admin_of(broker, signer()).stats()
        assert (await request(broker.admin.address, "/stats", {**HOST, "Authorization": outdated}))[0] == 401
        assert "not authenticated" not in caplog.text
        with pytest.raises(NodeRefused):
            await admin_of(broker, signer(OTHER)).stats()
        assert caplog.text.count("GET '/stats' refused (not authenticated)") == 1


@pytest.mark.parametrize(
    ("settings", "from_here", "from_elsewhere", "with_token"),
    [
        ({}, 200, 200, 200),
        ({"node_token": SECRET}, 200, 401, 401),
        ({"metrics_token": "scrape-me"}, 200, 401, 200),
        ({"node_token": SECRET, "metrics_token": "scrape-me"}, 200, 401, 200),
    ],
)
async def test_metrics_are_open_on_loopback_and_else_by_a_token_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], from_here: int, from_elsewhere: int,
    with_token: int,
) -> None:  # fmt: skip
    async with running_broker(tmp_path, **settings) as broker:
        address = broker.admin.address
        bearer = {**HOST, "Authorization": "Bearer scrape-me"}
        assert (await request(address, "/metrics", HOST))[0] == from_here
        monkeypatch.setattr("qmq_node.admin.auth.is_loopback", lambda _: False)
        assert (await request(address, "/metrics", HOST))[0] == from_elsewhere
        assert (await request(address, "/metrics", bearer))[0] == with_token
        assert (await request(address, "/metrics", {**HOST, "Authorization": "Bearer scrape"}))[0] == from_elsewhere
        # A monitoring system that has the token may use any name; the token opens no other page.
        if with_token == 200 and "metrics_token" in settings:
            assert (await request(address, "/metrics", {**bearer, "Host": "broker1.example"}))[0] == 200
        assert (await request(address, "/stats", bearer))[0] == (401 if "node_token" in settings else 200)
        if "node_token" in settings:
            url = "http://{}:{}/metrics".format(*address)
            assert (await http_get(url, timeout_s=20, signer=signer()))[0] == 200
