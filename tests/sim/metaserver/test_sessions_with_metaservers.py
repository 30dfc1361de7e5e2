"""A node and several metaservers: whose decisions it follows, how it leaves, and what it shows."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from broker_node.broker import Broker
from broker_node.options import BrokerOptions
from qmq.clock import SYSTEM_CLOCK
from qmq.errors import SettingError
from qmq.protocol.codes import BrokerGroupState, BrokerRequestType, Command, ResponseCode
from qmq.protocol.extensions import (
    NodePolicyRequest,
    NodePolicyResponse,
    NodeRegisterRequest,
    NodeRegisterResponse,
)
from qmq.protocol.frames import Frame
from qmq_node.metaservers.metaserver_session import BACK_OFF_SECONDS, CALL_SECONDS, DUPLICATE_SECONDS
from qmq_node.policy import EMPTY_POLICY, NodePolicy, encode_policy
from qmq_node.server.connection import Connection
from qmq_node.server.server import FrameServer
from tests.sim.world.network import SimulatedListener
from tests.support.drivers.in_process import get_json, get_page, machine, make_only_member

SHUT = NodePolicy.of(read_only="operators said so")
LEASE_SECONDS, HEARTBEAT_SECONDS = 4.0, 1.0
META = "a:80,b:80"


class Fake:
    """A metaserver that answers as its fields say."""

    def __init__(self, name: str) -> None:
        self.url = f"http://{name}:80/meta/address"
        self.server = FrameServer("127.0.0.1", 0, self.handle, clock=SYSTEM_CLOCK, listen=SimulatedListener)
        self.answers = True
        self.policy: NodePolicy | None = EMPTY_POLICY
        """None: it knows no policies."""
        self.code = self.reason = ""
        self.requests: list[int] = []
        """The types of all registrations."""

    def handle(self, connection: Connection, frame: Frame) -> None:
        if frame.code == Command.NODE_POLICY:
            NodePolicyRequest.decode(frame.body)
            assert self.policy is not None
            policy = NodePolicyResponse(self.policy.version, encode_policy(self.policy))
            connection.reply(frame, ResponseCode.SUCCESS, policy.encode())
            return
        self.requests.append(NodeRegisterRequest.decode(frame.body).request_type)
        if not self.answers:
            return
        version = self.policy.version if self.policy is not None and not self.code else ""
        answer = NodeRegisterResponse(
            not self.code,
            self.reason,
            1,
            BrokerGroupState.READ_WRITE,
            LEASE_SECONDS,
            HEARTBEAT_SECONDS,
            version,
            self.code,
        )
        connection.reply(frame, ResponseCode.SUCCESS, answer.encode())

    async def stop(self) -> None:
        await self.server.close(0)


class Fakes:
    """Metaservers a and b, and their address pages."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.a, self.b = Fake("a"), Fake("b")
        self.addresses: dict[str, tuple[str, int]] = {}
        """By URL; what is missing is answered after a minute."""
        monkeypatch.setattr("qmq_node.metaservers.metaserver_session.find_metaserver", self.find)

    async def find(self, url: str) -> tuple[str, int]:
        if url not in self.addresses:
            await asyncio.sleep(60)
        return self.addresses[url]

    async def start(self) -> None:
        for fake in (self.a, self.b):
            await fake.server.start()
            self.addresses[fake.url] = fake.server.address


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> Fakes:
    return Fakes(monkeypatch)


@asynccontextmanager
async def broker(folder: Path) -> AsyncIterator[Broker]:
    options = BrokerOptions(broker_group="g1", data_dir=str(folder), port=0, admin_port=0, meta=META)
    make_only_member(folder)
    running = Broker(options, machine())
    await running.start()
    try:
        yield running
    finally:
        await running.close()


def now() -> float:
    return asyncio.get_running_loop().time()


async def sessions_of(node: Broker) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await get_json(node, "/stats"))[1]["metaservers"]
    return found


async def followed(node: Broker) -> str:
    (url,) = [session["url"] for session in await sessions_of(node) if session["is_followed"]]
    return str(url)


async def test_policies_of_the_second_apply_only_while_the_first_is_silent_for_a_lease(
    tmp_path: Path, fakes: Fakes, caplog: pytest.LogCaptureFixture
) -> None:
    await fakes.start()
    fakes.b.policy = SHUT
    with caplog.at_level(logging.INFO, "qmq.metaservers"):
        async with broker(tmp_path) as node:
            await asyncio.sleep(20)
            assert (node.policy, await followed(node)) == (EMPTY_POLICY, fakes.a.url)
            fakes.a.answers = False
            await asyncio.sleep(LEASE_SECONDS - HEARTBEAT_SECONDS - 0.1)
            assert (node.policy, await followed(node)) == (EMPTY_POLICY, fakes.a.url)
            await asyncio.sleep(2 * HEARTBEAT_SECONDS + 0.2)
            assert (node.policy, await followed(node)) == (SHUT, fakes.b.url)
            assert f"following the decisions of metaserver {fakes.b.url} instead of {fakes.a.url}: " in caplog.text
            fakes.a.answers = True
            await asyncio.sleep(CALL_SECONDS + BACK_OFF_SECONDS[-1] + 1)
            assert (node.policy, await followed(node)) == (EMPTY_POLICY, fakes.a.url)
            assert f"{fakes.a.url} instead of {fakes.b.url}: it is behind in the list" in caplog.text
    await fakes.a.stop()
    await fakes.b.stop()


async def test_one_that_names_no_policy_or_refuses_the_node_is_followed_only_if_there_is_no_better_one(
    tmp_path: Path, fakes: Fakes
) -> None:
    await fakes.start()
    async with broker(tmp_path) as node:
        await asyncio.sleep(3)
        fakes.a.policy, fakes.b.policy = None, SHUT
        await asyncio.sleep(3)
        assert (node.policy, await followed(node)) == (SHUT, fakes.b.url)
        fakes.a.policy, fakes.a.code, fakes.a.reason = EMPTY_POLICY, "node.group_taken", "another node has it"
        await asyncio.sleep(3)
        assert await followed(node) == fakes.b.url
        assert node.registration.metaserver_read_only == ""
        states = {session["url"]: (session["state"], session["problem"]) for session in await sessions_of(node)}
        assert states == {fakes.a.url: ("rejected", "another node has it"), fakes.b.url: ("registered", "")}
        fakes.b.policy = None
        await asyncio.sleep(3)
        assert await followed(node) == fakes.a.url
        assert (
            node.registration.metaserver_read_only
            == "read only: the metaserver rejected this node: another node has it"
        )
        assert node.policy == SHUT, "no metaserver names another one"
    await fakes.a.stop()
    await fakes.b.stop()


async def test_a_metaserver_that_is_silent_delays_neither_heartbeats_to_another_nor_readiness_nor_the_stop(
    tmp_path: Path, fakes: Fakes
) -> None:
    await fakes.start()
    fakes.a.answers = False
    async with broker(tmp_path) as node:
        await asyncio.sleep(0.5)
        assert node.readiness() == ""
        await asyncio.sleep(30)
        assert 29 <= len(fakes.b.requests) <= 32
        states = {session["url"]: session["state"] for session in await sessions_of(node)}
        assert states == {fakes.a.url: "not_registered", fakes.b.url: "registered"}
        status, ready = await get_json(node, "/readyz")
        assert (status, list(ready)) == (200, ["status", "not_registered"])
        assert ready["not_registered"].startswith(f"{fakes.a.url}: ")
        assert "did not respond to command 200" in ready["not_registered"]
        metrics = (await get_page(node, "/metrics"))[1].decode()
        for url, value in ((fakes.a.url, 0), (fakes.b.url, 1)):
            assert f'metaserver_registered{{broker_group="g1",metaserver="{url}"}} {value}.0' in metrics
        began = now()
        assert node.registration.metaservers is not None
        await node.registration.metaservers.close()
        assert now() - began <= CALL_SECONDS + 0.1
        assert fakes.b.requests[-1] == BrokerRequestType.OFFLINE
        assert fakes.a.requests[-1] == BrokerRequestType.OFFLINE
    await fakes.a.stop()
    await fakes.b.stop()


async def test_a_stop_waits_only_so_long_when_no_metaserver_can_be_found(tmp_path: Path, fakes: Fakes) -> None:
    async with broker(tmp_path) as node:
        await asyncio.sleep(1)
        problem = "http://a:80/meta/address: not registered yet; http://b:80/meta/address: not registered yet"
        assert node.readiness() == f"not registered: {problem}"
        began = now()
        assert node.registration.metaservers is not None
        await node.registration.metaservers.close()
        assert now() - began <= CALL_SECONDS + 0.1


async def test_a_stop_goes_on_when_a_deregistration_fails(
    tmp_path: Path, fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fakes.start()
    async with broker(tmp_path) as node:
        await asyncio.sleep(1)
        assert node.registration.metaservers is not None
        monkeypatch.setattr(node.registration.metaservers, "describe", lambda request_type: 1 // 0)
    assert node.registration.metaservers.sessions[0].caller is None
    await fakes.a.stop()
    await fakes.b.stop()


async def test_a_change_of_the_node_reaches_all_at_once(tmp_path: Path, fakes: Fakes) -> None:
    await fakes.start()
    async with broker(tmp_path) as node:
        await asyncio.sleep(3.5)
        before = [len(fake.requests) for fake in (fakes.a, fakes.b)]
        assert node.registration.metaservers is not None
        node.registration.metaservers.soon()
        await asyncio.sleep(0.1)
        assert [len(fake.requests) for fake in (fakes.a, fakes.b)] == [count + 1 for count in before]
    await fakes.a.stop()
    await fakes.b.stop()


async def test_two_urls_of_one_metaserver_are_an_error_and_the_second_session_idles(
    tmp_path: Path, fakes: Fakes, caplog: pytest.LogCaptureFixture
) -> None:
    await fakes.start()
    fakes.addresses[fakes.b.url] = fakes.a.server.address
    with caplog.at_level(logging.INFO, "qmq.metaservers"):
        async with broker(tmp_path) as node:
            await asyncio.sleep(DUPLICATE_SECONDS * 2 + 10)
            sessions = await sessions_of(node)
            assert sorted(session["state"] for session in sessions) == ["duplicate", "registered"]
            (idle,) = [session for session in sessions if session["state"] == "duplicate"]
            assert "both lead to the metaserver at 127.0.0.1:" in idle["problem"]
            assert "Remove one of them from --meta" in idle["problem"]
            errors = [record for record in caplog.records if record.levelno == logging.ERROR]
            assert len(errors) == 1, "logged once"
            assert fakes.a.requests.count(BrokerRequestType.ONLINE) == 1, "no connection replaced another one"
            # Once the page names another metaserver, the session registers there.
            fakes.addresses[fakes.a.url] = fakes.a.server.address
            fakes.addresses[idle["url"]] = fakes.b.server.address
            await asyncio.sleep(DUPLICATE_SECONDS + 1)
            assert [session["state"] for session in await sessions_of(node)] == ["registered", "registered"]
            fakes.a.requests.clear()
        assert fakes.a.requests.count(BrokerRequestType.OFFLINE) == 1
    await fakes.a.stop()
    await fakes.b.stop()


async def test_a_session_that_idles_does_not_deregister(
    tmp_path: Path, fakes: Fakes, caplog: pytest.LogCaptureFixture
) -> None:
    await fakes.start()
    fakes.addresses[fakes.b.url] = fakes.a.server.address
    with caplog.at_level(logging.INFO, "qmq.metaservers"):
        async with broker(tmp_path):
            await asyncio.sleep(5)
        assert fakes.a.requests.count(BrokerRequestType.OFFLINE) == 1
        assert "deregistration" not in caplog.text
    await fakes.a.stop()
    await fakes.b.stop()


@pytest.mark.parametrize("meta", ["a:1,http://A:1/", "a:1,", "a:1,b:2,c:3,d:4,e:5,f:6", "ftp://a"])
async def test_a_node_with_a_wrong_list_does_not_start(tmp_path: Path, meta: str) -> None:
    with pytest.raises(SettingError):
        Broker(BrokerOptions(broker_group="g1", data_dir=str(tmp_path), meta=meta), machine())
