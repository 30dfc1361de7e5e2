"""A whole system with a node secret: the console, `qmq` and clients work; who lacks the secret reads and changes nothing."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qmq.net.node_secret import make_secret_file
from tests.support.servers.processes import answers
from tests.support.servers.system import System
from tests.support.waiting import eventually


def test_everything_that_shares_the_secret_works_and_nothing_else(
    make_plane: Callable[..., System], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "shared_secret"
    make_secret_file(secret)
    monkeypatch.setenv("QMQ_NODE_TOKEN_FILE", str(secret))
    plane = make_plane(groups=2)
    plane.add_delay("d1")
    plane.start()

    def qmq(*arguments: str) -> Any:
        done = plane.qmq(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    qmq("produce", "orders", "-p", "number=1")
    qmq("consume", "orders", "billing", "--count", "1")
    assert json.loads(qmq("status", "--json"))["metaserver"]["subjects"] == 1
    assert json.loads(qmq("lag", "orders", "--json"))["unknown"] == {}

    # The console asks nodes: live numbers, pages, changes.
    eventually(
        lambda: all(node["unmeasured_reason"] is None for node in plane.get("/nodes/")["results"]),
        what="nodes are measured",
    )
    assert len(plane.get("/nodes/")["results"]) == 3
    page = plane.get("/subjects/orders/messages/")
    assert len(page["results"]) == 1
    done = plane.post("/consumer-groups/orders/billing/reset/", {"to": "earliest"})
    assert done["after"]

    # Clients and `qmq` without the secret send, receive and look after delayed messages, as the official client does.
    monkeypatch.setenv("QMQ_NODE_TOKEN_FILE", "")
    monkeypatch.setenv("QMQ_DATA_DIR", str(tmp_path / "elsewhere"))
    qmq("produce", "orders", "-p", "number=2", "--delay", "1h")
    assert len(json.loads(qmq("delayed", "list", "orders", "--json"))["messages"]) == 1
    qmq("consume", "orders", "other", "--count", "1")
    for command in (("status",), ("subjects",), ("lag", "orders")):
        refused = plane.qmq(*command)
        assert refused.returncode == 1
        assert "QMQ_NODE_TOKEN" in refused.stderr
    for group, (_, admin) in plane.ports.items():
        assert not answers(f"http://127.0.0.1:{admin}/stats"), group
        assert answers(f"http://127.0.0.1:{admin}/metrics"), "open on loopback"
    logs = [process.log() for process in plane.processes]
    assert not any(secret.read_text().strip() in log for log in logs)
