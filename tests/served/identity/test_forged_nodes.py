"""With a node secret, only nodes that know it are registered (F-7)."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from metaserver.choices import GroupState
from metaserver.options import MetaOptions
from metaserver.server import Metaserver
from qmq.clock import SystemClock
from qmq.errors import AuthenticationFailed, SettingError
from qmq.net.caller import Caller
from qmq.net.node_secret import NodeSecret
from qmq.options import parse_options
from qmq.protocol.codes import BrokerRequestType, Command, ResponseCode
from qmq.protocol.commands import BrokerRegisterRequest
from qmq.protocol.extensions import (
    CLIENT_CONTEXT,
    SERVER_CONTEXT,
    AuthenticateRequest,
    AuthenticateResponse,
    EnsureGroupRequest,
    NodePolicyRequest,
    NodeRegisterRequest,
)
from qmq.protocol.frames import Frame
from qmq.protocol.primitives import encode_strmap
from qmq_node.server.connection import Connection
from qmq_node.server.connection_auth import authenticate
from qmq_node.server.server import FrameServer
from qmq_testing.repository import MemoryRepository
from tests.support.drivers.in_process import connected, make_only_member, message, running_broker
from tests.support.servers.processes import PROJECT
from tests.support.waiting import eventually_async

SECRET = "first-secret-of-the-tests-0123456789abcdef"
OTHER = "other-secret-of-the-tests-0123456789abcdef"


@asynccontextmanager
async def running(folder: Path, **environ: str) -> AsyncIterator[Metaserver]:
    argv = ["--data-dir", str(folder / "meta"), "--http-port", "0", "--tcp-port", "0", "--new-groups", "allow"]
    options = parse_options(MetaOptions, argv, environ, prog="metaserver", process="meta")
    metaserver = Metaserver(options, MemoryRepository())
    await metaserver.start()
    try:
        yield metaserver
    finally:
        await metaserver.close()


@asynccontextmanager
async def connection(metaserver: Metaserver) -> AsyncIterator[Caller]:
    caller = Caller(*metaserver.server.address)
    await caller.connect()
    try:
        yield caller
    finally:
        await caller.close()


def registration(group: str = "g1", address: str = "127.0.0.1:20881", log_end: int = 0) -> bytes:
    return NodeRegisterRequest(
        BrokerRequestType.ONLINE, group, f"{group}-a", "broker", 0, address, "", 1, 1, log_end, 0, "1"
    ).encode()


def java_registration(group: str, address: str) -> bytes:
    return BrokerRegisterRequest(BrokerRequestType.ONLINE, group, address, 0, 1).encode()


async def call(caller: Caller, command: Command, body: bytes) -> Frame:
    return await caller.call(command, body, timeout_s=20)


async def test_a_node_without_the_secret_is_not_registered(tmp_path: Path) -> None:
    async with running(tmp_path, QMQ_NODE_TOKEN=SECRET) as metaserver, connection(metaserver) as forger:
        answer = await call(forger, Command.NODE_REGISTER, registration(log_end=1 << 62))
        assert answer.code == ResponseCode.PARAM_ERROR
        assert b"QMQ_NODE_TOKEN" in bytes(answer.body)
        assert not metaserver.directory.groups
        answer = await call(forger, Command.NODE_POLICY, NodePolicyRequest("g1", "g1-a", "").encode())
        assert answer.code == ResponseCode.PARAM_ERROR
        for command in (Command.CHANGE_IN_SYNC, Command.RESIGN):
            assert (await call(forger, command, b"")).code == ResponseCode.PARAM_ERROR
        assert metaserver.handlers.counters.bad_requests["unauthenticated"] == 4


async def test_without_a_secret_everybody_may_register(tmp_path: Path) -> None:
    async with running(tmp_path, QMQ_META_OFFICIAL_NODES="g2") as metaserver, connection(metaserver) as node:
        assert (await call(node, Command.NODE_REGISTER, registration())).code == ResponseCode.SUCCESS
        assert metaserver.directory.groups["g1"].state is GroupState.READ_WRITE
        assert (await call(node, Command.BROKER_REGISTER, java_registration("g2", "127.0.0.1:1"))).code == 0
        assert set(metaserver.directory.groups) == {"g1", "g2"}


@pytest.mark.parametrize(
    ("group", "address", "is_registered"),
    [
        ("java1", "127.0.0.1:20881", True),
        ("java1", "127.0.0.1:666", False),
        ("java1", "10.0.0.9:20881", False),
        ("g1", "127.0.0.1:20881", False),
        ("named", "broker.example:20881", True),
        ("away", "10.0.0.9:20881", False),
    ],
)
async def test_official_nodes_have_to_be_named(tmp_path: Path, group: str, address: str, is_registered: bool) -> None:
    """`away` is named, but registers from another host than its address says."""
    named = "java1@127.0.0.1:20881, named@broker.example:20881,away@10.0.0.9:20881"
    async with (
        running(tmp_path, QMQ_META_OFFICIAL_NODES=named, QMQ_NODE_TOKEN=SECRET) as metaserver,
        connection(metaserver) as node,
    ):
        answer = await call(node, Command.BROKER_REGISTER, java_registration(group, address))
        assert (answer.code == ResponseCode.SUCCESS) is is_registered
        assert (group in metaserver.directory.groups) is is_registered


async def test_with_a_secret_official_nodes_need_an_address(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="GROUP@HOST:PORT"):
        async with running(tmp_path, QMQ_META_OFFICIAL_NODES="java1", QMQ_NODE_TOKEN=SECRET):
            pass


def secret(text: str = SECRET) -> NodeSecret:
    return NodeSecret.parse(text, "x")


async def test_a_node_with_the_secret_is_registered_and_the_metaserver_proves_itself(tmp_path: Path) -> None:
    async with running(tmp_path, QMQ_NODE_TOKEN=SECRET) as metaserver, connection(metaserver) as node:
        await authenticate(node, secret(), "node", timeout_s=20)
        assert (await call(node, Command.NODE_REGISTER, registration())).code == ResponseCode.SUCCESS
        assert metaserver.directory.groups["g1"].state is GroupState.READ_WRITE
        async with connection(metaserver) as other:
            # A proof holds for the connection that it was made on.
            assert (await call(other, Command.NODE_REGISTER, registration())).code == ResponseCode.PARAM_ERROR


async def test_a_wrong_secret_closes_the_connection(tmp_path: Path) -> None:
    async with running(tmp_path, QMQ_NODE_TOKEN=SECRET) as metaserver, connection(metaserver) as forger:
        with pytest.raises(AuthenticationFailed, match="does not match this system's"):
            await authenticate(forger, secret(OTHER), "node", timeout_s=20)
        await eventually_async(lambda: forger.is_closed)
        await eventually_async(lambda: not metaserver.auth._peers, what="nothing is remembered of it")
        assert metaserver.handlers.counters.bad_requests["unauthenticated"] == 1


async def test_a_recorded_proof_is_not_accepted_again(tmp_path: Path) -> None:
    """Neither on the same connection nor on another one with the same nonce of the client."""
    nonce = bytes(32)
    async with running(tmp_path, QMQ_NODE_TOKEN=SECRET) as metaserver:
        async with connection(metaserver) as node:
            answer = await call(node, Command.AUTHENTICATE, AuthenticateRequest("node", nonce).encode())
            parts = (AuthenticateResponse.decode(answer.body).nonce, nonce, b"node")
            proof = AuthenticateRequest("node", nonce, secret().sign(CLIENT_CONTEXT, *parts)).encode()
            assert (await call(node, Command.AUTHENTICATE, proof)).code == ResponseCode.SUCCESS
            assert (await call(node, Command.AUTHENTICATE, proof)).code == ResponseCode.PARAM_ERROR
        async with connection(metaserver) as replay:
            assert (await call(replay, Command.AUTHENTICATE, proof)).code == ResponseCode.PARAM_ERROR
        async with connection(metaserver) as replay:
            await call(replay, Command.AUTHENTICATE, AuthenticateRequest("node", nonce).encode())
            assert (await call(replay, Command.AUTHENTICATE, proof)).code == ResponseCode.PARAM_ERROR


@pytest.mark.parametrize(("purpose", "context"), [("node", SERVER_CONTEXT), ("guest", CLIENT_CONTEXT)])
async def test_a_proof_of_another_kind_is_refused(tmp_path: Path, purpose: str, context: str) -> None:
    nonce = bytes(range(32))
    async with running(tmp_path, QMQ_NODE_TOKEN=SECRET) as metaserver, connection(metaserver) as forger:
        answer = await call(forger, Command.AUTHENTICATE, AuthenticateRequest("node", nonce).encode())
        parts = (AuthenticateResponse.decode(answer.body).nonce, nonce, purpose.encode())
        proof = AuthenticateRequest(purpose, nonce, secret().sign(context, *parts)).encode()
        assert (await call(forger, Command.AUTHENTICATE, proof)).code == ResponseCode.PARAM_ERROR
        assert not metaserver.directory.groups


@pytest.mark.parametrize("fields", [{}, {"nonce": "00"}, {"nonce": "zz" * 32}, {"nonce": "00" * 32, "proof": "é"}])
async def test_what_can_not_be_decoded_is_refused(tmp_path: Path, fields: dict[str, str]) -> None:
    async with running(tmp_path, QMQ_NODE_TOKEN=SECRET) as metaserver, connection(metaserver) as forger:
        body = encode_strmap({"purpose": "node", **fields})
        assert (await call(forger, Command.AUTHENTICATE, body)).code == ResponseCode.BROKER_ERROR


async def test_a_server_that_does_not_know_the_secret_is_recognised() -> None:
    """One that accepts every proof, as a forged metaserver would, and one that has no secret."""
    body = AuthenticateResponse(bytes(32), bytes(32)).encode()
    async with answering(lambda frame: (ResponseCode.SUCCESS, body)) as caller:
        with pytest.raises(AuthenticationFailed, match="does not have the node secret"):
            await authenticate(caller, secret(), "node", timeout_s=20)
    async with answering(lambda frame: (ResponseCode.UNKNOWN_CODE, b"")) as caller:
        with pytest.raises(AuthenticationFailed, match="older version"):
            await authenticate(caller, secret(), "node", timeout_s=20)


@asynccontextmanager
async def answering(answer: Callable[[Frame], tuple[int, bytes]]) -> AsyncIterator[Caller]:
    def handle(peer: Connection, frame: Frame) -> None:
        peer.reply(frame, *answer(frame))

    server = FrameServer("127.0.0.1", 0, handle, clock=SystemClock())
    await server.start()
    caller = Caller(*server.address)
    await caller.connect()
    try:
        yield caller
    finally:
        await caller.close()
        await server.close(0)


@pytest.mark.parametrize(
    ("of_metaserver", "of_node", "is_registered"),
    [
        (SECRET, SECRET, True),
        (f"{SECRET},{OTHER}", SECRET, True),
        (f"{SECRET},{OTHER}", OTHER, True),
        (f"{OTHER},{SECRET}", f"{SECRET},{OTHER}", True),
        (SECRET, OTHER, False),
        (SECRET, "", False),
        ("", SECRET, False),
        ("", "", True),
    ],
)
async def test_nodes_register_with_a_secret_that_both_accept(
    tmp_path: Path, of_metaserver: str, of_node: str, is_registered: bool
) -> None:
    """A node that is not registered serves its clients all the same, and says why it is not."""
    environ = {"QMQ_NODE_TOKEN": of_metaserver} if of_metaserver else {}
    async with running(tmp_path, **environ) as metaserver:
        url = "http://{}:{}/meta/address".format(*metaserver.admin.address)
        make_only_member(tmp_path / "broker")
        async with running_broker(tmp_path, meta=url, node_token=of_node) as broker:
            assert broker.registration.metaservers is not None
            (session,) = broker.registration.metaservers.sessions
            await eventually_async(lambda: session.last is not None or session.failures > 1)
            assert session.is_registered is is_registered
            assert ("g1" in metaserver.directory.groups) is is_registered
            if not is_registered:
                assert "secret" in session.problem
                assert "secret" in broker.readiness()
            async with connected(broker) as client:
                assert await client.send(message(1)) == {}


@pytest.mark.parametrize("kind", ["metaserver", "broker_node", "delay_node"])
def test_a_secret_that_can_not_be_used_ends_the_process_with_one_line(tmp_path: Path, kind: str) -> None:
    for environ in ({"QMQ_NODE_TOKEN": "short"}, {"QMQ_NODE_TOKEN_FILE": str(tmp_path / "none")}):
        done = subprocess.run(
            [sys.executable, "-m", kind, "--data-dir", str(tmp_path / kind)],
            capture_output=True, text=True, timeout=60, cwd=PROJECT, env={**os.environ, **environ}, check=False,
        )  # fmt: skip
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
        assert done.stderr.splitlines()[-1].startswith(kind)


async def test_a_group_is_reset_by_trusted_connections_only(tmp_path: Path) -> None:
    """Clients make groups, and never set those that exist."""
    async with running_broker(tmp_path, node_token=SECRET) as broker:
        async with connected(broker) as client:
            await client.send(message(1), message(2))
            new = EnsureGroupRequest("orders", "g", "earliest", 0, True, False).encode()
            assert (await client.raw(Command.ENSURE_GROUP, new)).code == ResponseCode.SUCCESS
            assert await client.begin(start="latest") == ResponseCode.PARAM_ERROR
            assert (await client.pull())[1] == ["m1", "m2"]
        async with connected(broker) as console:
            await authenticate(console.caller, secret(), "console", timeout_s=20)
            assert await console.begin(start="latest") == ResponseCode.SUCCESS


async def test_listening_for_other_machines_without_a_secret_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def warnings() -> list[str]:
        found = [record.getMessage() for record in caplog.records if "without a node secret" in record.getMessage()]
        caplog.clear()
        return found

    async with running_broker(tmp_path):
        assert warnings() == []
    async with running_broker(tmp_path, admin_host="0.0.0.0"):
        assert len(warnings()) == 1
    async with running_broker(tmp_path, host="0.0.0.0", admin_host="0.0.0.0", node_token=SECRET):
        assert warnings() == []
    async with running(tmp_path, QMQ_META_HOST="0.0.0.0"):
        assert len(warnings()) == 1


async def test_a_sync_port_for_other_machines_without_a_secret_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_only_member(tmp_path / "broker")
    for settings, is_warned in (
        ({"host": "0.0.0.0"}, True),
        ({"host": "0.0.0.0", "sync_token": SECRET}, False),
        ({"host": "0.0.0.0", "node_token": SECRET}, False),
        ({}, False),
    ):
        caplog.clear()
        async with running_broker(tmp_path, meta="127.0.0.1:1", **settings):
            assert ("the sync port listens on 0.0.0.0 without a secret" in caplog.text) is is_warned
