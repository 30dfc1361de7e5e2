"""Two real metaservers over one database: one is killed, stands still, or is started by the command line of the how-to."""

import asyncio
import json
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from metaserver.memory.live_groups import PEER_EXPIRY_SECONDS
from qmq import Consumer, Producer
from qmq.errors import QmqError
from qmq.net.discovery import http_get
from qmq.net.http_auth import RequestSigner
from qmq.net.node_secret import NodeSecret
from qmq.private_files import replace_secret
from tests.support.servers import ports
from tests.support.servers.processes import PROJECT, Process
from tests.support.servers.system import System
from tests.support.waiting import eventually, eventually_async

NewSystem = Callable[..., System]
ONLINE = ["read_write"] * 3
HOW_TO = PROJECT / "docs/how-to/several-metaservers.md"


def sessions(system: System, group: str) -> list[dict[str, Any]]:
    """The metaservers of a node, as it shows them."""
    found: list[dict[str, Any]] = system.admin(group, "/stats")["metaservers"]
    return found


def are_registered(system: System) -> bool:
    states = {session["state"] for group in system.ports for session in sessions(system, group)}
    return states == {"registered"}


@pytest.fixture
def pair(new_system: NewSystem) -> System:
    """Two metaservers, two brokers and a delay node, each registered with both."""
    system = new_system(groups=2, delays=1, metas=2)
    system.start()
    eventually(lambda: are_registered(system), what="all nodes are registered with both")
    return system


async def test_the_metaserver_that_clients_use_is_killed_under_load(pair: System) -> None:
    first, second = pair.metas
    sent: list[str] = []
    received: list[str] = []

    async def produce(producer: Producer) -> None:
        while True:
            receipt = await producer.send("orders", {"n": str(len(sent))})
            sent.append(receipt.message_id)

    async def consume(consumer: Consumer) -> None:
        while True:
            for delivery in await consumer.pull(100, timeout=1.0):
                received.append(delivery.message_id)
                await delivery.ack()

    async with (
        Producer(pair.meta_url, app="load") as producer,
        Consumer(pair.meta_url, "orders", "billing", start="earliest") as consumer,
    ):
        tasks = [asyncio.create_task(produce(producer)), asyncio.create_task(consume(consumer))]
        await eventually_async(lambda: len(received) > 100, what="the load runs")
        pair.meta.kill()
        await producer.send("new", {"a": "1"})
        # Long enough for the other one to take groups offline, if it would.
        await eventually_async(
            lambda: (sessions(pair, "g1")[0]["last_answer_seconds"] or 0) > PEER_EXPIRY_SECONDS + 2, what="time passes"
        )
        assert pair.group_states(second) == ONLINE
        assert [session["is_followed"] for session in sessions(pair, "g1")] == [False, True]
        before = len(received)
        await eventually_async(lambda: len(received) > before + 100, what="messages are still received")
        pair.meta.start()
        await eventually_async(lambda: are_registered(pair), what="all are registered with both again")
        assert pair.group_states(first) == pair.group_states(second) == ONLINE
        for task in tasks[:1]:
            task.cancel()
        await eventually_async(lambda: set(sent) <= set(received), what="everything is received")
        tasks[1].cancel()
        await asyncio.wait(tasks)
    assert len(received) == len(set(received))


def test_clients_that_start_while_the_first_stands_still_use_the_second(pair: System) -> None:
    with pair.meta.paused():
        for command in (
            ("produce", "fresh", "-p", "a=1"), ("consume", "fresh", "g", "--from", "earliest", "--count", "1"),
            ("produce", "later", "-p", "a=1", "--delay", "1h"), ("delayed", "list", "later"), ("status",), ("subjects",),
        ):  # fmt: skip
            done = pair.qmq(*command)
            assert done.returncode == 0, (command, done.stderr)
    eventually(lambda: are_registered(pair), what="all are registered with both again")
    assert [pair.group_states(port) for port in pair.metas] == [ONLINE, ONLINE]


def test_a_node_registers_once_with_a_metaserver_that_its_list_names_twice(new_system: NewSystem) -> None:
    system = new_system(groups=0)
    system.start()
    url = f"http://127.0.0.1:{system.http_port}"
    node = system.add_broker("g1", "--meta", f"{url},http://localhost:{system.http_port}")
    system.start()

    def states() -> list[str]:
        return sorted(session["state"] for session in sessions(system, "g1"))

    eventually(lambda: states() == ["duplicate", "registered"], what="one session idles")
    assert "both lead to the metaserver at 127.0.0.1:" in node.log()
    assert system.group_states() == ["read_write"]


def commands() -> list[tuple[dict[str, str], list[str]]]:
    """The commands of the how-to's blocks, each with its environment."""
    blocks = re.findall(r"^```text\n(.*?)^```", HOW_TO.read_text(), re.MULTILINE | re.DOTALL)
    found = []
    for line in "".join(blocks).replace("\\\n", " ").splitlines():
        words = shlex.split(line)
        environment = dict(word.split("=", 1) for word in words if re.match(r"[A-Z_]+=", word))
        found.append((environment, [word for word in words if not re.match(r"[A-Z_]+=", word)]))
    return found


def signed_page(url: str, secret: NodeSecret) -> Any:
    """A page of a process that requires a proof of the node secret; {} before it answers."""
    try:
        return json.loads(asyncio.run(http_get(url, timeout_s=20, signer=RequestSigner(secret)))[1])
    except QmqError:
        return {}


def test_the_command_lines_of_the_how_to_start_a_second_metaserver_and_a_node_of_both(
    new_system: NewSystem, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    replace_secret(str(tmp_path / "node_token"), "a node secret for tests that is long enough")
    monkeypatch.setenv("QMQ_NODE_TOKEN_FILE", str(tmp_path / "node_token"))
    system = new_system(groups=1)
    system.start()
    http_port, tcp_port, port, admin_port = (ports.free_port() for _ in range(4))
    both = f"127.0.0.1:{system.http_port},127.0.0.1:{http_port}"
    replaced = {
        "python": sys.executable, "8090": str(http_port), "20870": str(tcp_port), "20897": str(port),
        "20997": str(admin_port), "127.0.0.1:8080,127.0.0.1:8090": both,
    }  # fmt: skip

    def as_here(word: str) -> str:
        # `var` of the how-to is this system's folder.
        return re.sub(r"(?<![\w/])var/|(?<=///)var/", f"{tmp_path}/", replaced.get(word, word))

    secret = NodeSecret.load("", str(tmp_path / "node_token"))
    assert secret is not None

    def groups(of: int) -> dict[str, str]:
        found = signed_page(f"http://127.0.0.1:{of}/meta/cluster", secret).get("broker_groups", ())
        return {group["name"]: group["state"] for group in found}

    metaserver, node, export, status = commands()
    started = []
    try:
        for name, (environment, command), ready in (("second", metaserver, http_port), ("g3", node, admin_port)):
            here = {key: as_here(value) for key, value in environment.items()}
            url = f"http://127.0.0.1:{ready}/readyz"
            started.append(Process(name, [as_here(word) for word in command], tmp_path, url, here))
            started[-1].start()
        stats = f"http://127.0.0.1:{admin_port}/stats"
        eventually(
            lambda: [one["state"] for one in signed_page(stats, secret).get("metaservers", ())] == ["registered"] * 2,
            what="the node is registered with both",
        )
        expected = {"g1": "read_write", "g3": "read_write"}
        eventually(lambda: groups(http_port) == groups(system.http_port) == expected, what="both know both groups")
        system.meta.kill()
        assert (export[1], status) == (["export"], ({}, ["qmq", "status"]))
        monkeypatch.setenv("QMQ_META", as_here(export[0]["QMQ_META"]))
        done = Process("status", [sys.executable, "-m", "qmq.cli", "status"], tmp_path)
        started.append(done)
        done.start()
        eventually(lambda: "g3" in done.log(), what="the command uses the second one")
        assert (tmp_path / "meta2").is_dir()
    finally:
        for process in reversed(started):
            process.stop()
        ports.release(http_port, tcp_port, port, admin_port)
