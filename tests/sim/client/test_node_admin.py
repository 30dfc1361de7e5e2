"""`NodeAdmin` against nodes, and against what is no node: bounded, and every failure a named error."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from qmq.errors import ConnectionLost, SettingError
from qmq.node_admin import NodeAdmin, NodeRefused
from tests.support.drivers.in_process import connected, get_json, message, running_broker, small_system
from tests.support.servers.processes import PROJECT


@asynccontextmanager
async def answering(answer: bytes, *, hold: bool = False) -> AsyncIterator[str]:
    """A server that says one thing to everybody; its address."""
    release = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        if hold:
            await release.wait()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        release.set()


async def test_pages_of_both_kinds_of_node(tmp_path: Path) -> None:
    async with small_system(tmp_path) as system:
        for node, kind in ((system.brokers["g1"], "subjects"), (system.delay, "pending")):
            admin = NodeAdmin("{}:{}".format(*node.admin.address))
            assert (await get_json(node, "/healthz"))[1]["status"] == "ok"
            assert (await get_json(node, "/readyz"))[1]["status"] in ("ok", "failing")
            stats = await admin.stats()
            assert stats["node_id"] == node.node_id
            assert kind in stats


async def test_every_page_of_both_kinds_of_node_is_documented(tmp_path: Path) -> None:
    page = (PROJECT / "docs/reference/admin.md").read_text()
    documented = set(re.findall(r"(GET|POST) (/[^ ,|]*)", page))
    served = set()
    async with small_system(tmp_path) as system:
        for node in (system.brokers["g1"], system.delay):
            for route in node.admin._runner.app.router.routes():
                if route.method != "HEAD" and route.resource is not None:
                    served.add((route.method, route.resource.canonical))
    assert documented == served


async def test_stats_go_on_page_by_page(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.send(*(message(n, f"s{n}") for n in range(3)))
        admin = NodeAdmin("{}:{}".format(*broker.admin.address))
        page = await admin.stats(limit=2)
        assert [subject["subject"] for subject in page["subjects"]] == ["s0", "s1"]
        page = await admin.stats(after=page["next_after"])
        assert [subject["subject"] for subject in page["subjects"]] == ["s2"]
        assert page["next_after"] is None


async def test_a_node_that_is_not_well_says_why(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        broker.is_ready = False
        assert await get_json(broker, "/readyz") == (503, {"status": "failing", "reason": "not serving"})
        broker.is_ready = True


async def test_an_answer_is_bounded_in_bytes(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.send(*(message(n, size=2000) for n in range(10)))
        address = "{}:{}".format(*broker.admin.address)
        with pytest.raises(ConnectionLost) as caught:
            await NodeAdmin(address, bytes_max=10_000).messages("orders")
        assert (caught.value.code, caught.value.retriable) == ("net.answer_too_large", False)
        assert len((await NodeAdmin(address).messages("orders"))["messages"]) == 10
    async with answering(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 200_000) as address:
        with pytest.raises(ConnectionLost) as caught:
            await NodeAdmin(address, bytes_max=1_000).stats()
        assert caught.value.code == "net.answer_too_large"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (b"", "net.unreachable"),
        (b"nonsense\r\n\r\n", "net.connection_lost"),
        (b"HTTP/1.1 200 OK\r\n\r\n<html>", "node.not_json"),
        (b"HTTP/1.1 200 OK\r\n\r\n[1]", "node.not_json"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{}", "net.connection_lost"),
        (b"HTTP/1.1 500 Oh\r\n\r\n<html>", "node.refused"),
        (b'HTTP/1.1 400 Bad\r\n\r\n{"code": "a.b", "message": "so"}', "a.b"),
    ],
)
async def test_what_is_no_good_answer_is_a_named_error(answer: bytes, code: str) -> None:
    async with answering(answer) as address:
        with pytest.raises((ConnectionLost, NodeRefused)) as caught:
            await NodeAdmin(address).stats()
        assert caught.value.code == code


async def test_a_node_that_does_not_answer_costs_the_timeout_and_no_more() -> None:
    async with answering(b"HTTP/1.1 200 OK\r\n\r\n{", hold=True) as address:
        began = asyncio.get_running_loop().time()
        with pytest.raises(ConnectionLost, match=r"no response within 0\.2 s"):
            await NodeAdmin(address, timeout_seconds=0.2).stats()
        assert asyncio.get_running_loop().time() == pytest.approx(began + 0.2)
    with pytest.raises(ConnectionLost) as caught:
        await NodeAdmin(address, timeout_seconds=20).stats()
    assert caught.value.code == "net.unreachable"


@pytest.mark.parametrize(
    "address", ["", "host", "host:", "host:x", "host:99999", "a:1/b", "u@h:1", "a b:1", "h:1\r\nX: y"]
)
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(SettingError):
        NodeAdmin(address)
