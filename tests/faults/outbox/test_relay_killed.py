"""A relay that is killed at any point loses no message, and leaves none behind for ever."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter

import pytest

from qmq.outbox.databases import Address
from qmq.sync import Consumer
from tests.faults.outbox.relay_points import ROWS, SUBJECT
from tests.support.servers.processes import PROJECT
from tests.support.servers.system import System

pytestmark = pytest.mark.database
ROUNDS = 20 if os.environ.get("QMQ_FAULTS") == "full" else 1


def test_a_relay_is_killed_at_each_point(database_url: str, served: System) -> None:
    url = database_url.partition("?")[0]
    with Consumer(served.meta_url, SUBJECT, group="g", start="earliest") as consumer:
        done = subprocess.run(
            [sys.executable, "-m", "tests.faults.outbox.relay_points", url, served.meta_url, str(ROUNDS)],
            cwd=PROJECT, capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()[-3000:]
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        points = [line for line in lines if "point" in line]
        ended = [line for line in lines if "ended" in line]
        assert [line["ended"] for line in ended].count(0) == ROUNDS, "the last relay of a round ends by itself"
        assert len(points) == len(ended) - ROUNDS
        assert all(line["ended"] in (0, -signal.SIGKILL) for line in ended)
        reached = {line["at"] for line in points}
        assert {"before the request", "after the request", "after the answer"} <= reached
        assert {word for at in reached for word in at.split()[1:2]} >= {"UPDATE", "SELECT", "DELETE", "INSERT"}
        recovered = [line for line in lines if "recovered" in line]
        assert all(line == {"recovered": 0, "left": 0} for line in recovered)
        sent = {f"{round_}-{point}-{row}" for round_, point, row in _numbers(ended)}
        copies: Counter[str] = Counter()
        while not sent <= copies.keys():
            delivery = next(iter(consumer))
            copies[delivery.message_id] += 1
            delivery.ack()
    assert copies.keys() == sent
    print(
        f"figure: {Address.parse(url).kind}: {len(points)} points, {sum(copies.values())} copies of {len(sent)} messages"
    )


def _numbers(ended: list[dict[str, int]]) -> list[tuple[int, int, int]]:
    found = []
    round_ = point = 0
    for line in ended:
        point += 1
        found += [(round_, point, row) for row in range(ROWS)]
        if line["ended"] == 0:
            round_, point = round_ + 1, 0
    return found
