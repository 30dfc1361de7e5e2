"""A relay that kills itself at each of its points: before and after each statement, each request and each answer.

Run as a program: `relay_points.py DATABASE_URL META_URL ROUNDS`. Prints JSON lines for each point: its number and what happened
there; how the relay ended and the rows that it left; the same of the relay that came after. Each relay is a fork of this process,
which has no threads.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from qmq.client.outgoing import Encoded, Outcome
from qmq.client.producer import Producer as AsyncProducer
from qmq.outbox.databases import Address, Connection, connect
from qmq.outbox.dialects import LEASE_TABLE, TABLE
from qmq.outbox.relay import Relay
from qmq.sync import Producer
from tests.support.outbox import Table, content

ROWS = 3
SUBJECT = "outbox.killed"


class Points:
    """Counts points, and kills the process at one of them."""

    def __init__(self, last: int) -> None:
        self._last = last
        self._count = 0

    def reach(self, what: str) -> None:
        self._count += 1
        if self._count == self._last:
            os.write(1, json.dumps({"point": self._count, "at": what}).encode() + b"\n")
            os.kill(os.getpid(), signal.SIGKILL)


class PointedConnection(Connection):
    """A connection with a point before and after each statement."""

    points: Points

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._pointed(super().rows, sql, values)

    def change(self, sql: str, values: Sequence[Any] = ()) -> int:
        return self._pointed(super().change, sql, values)

    def _pointed(self, run: Callable[..., Any], sql: str, values: Sequence[Any]) -> Any:
        self.points.reach(f"before {sql[:40]}")
        found = run(sql, values)
        self.points.reach(f"after {sql[:40]}")
        return found


def pointed_connection(address: Address, points: Points) -> Connection:
    found = PointedConnection(connect(address).raw)
    found.points = points
    return found


def relay_once(address: Address, meta_url: str, last: int) -> None:
    """One pass that is killed at a point, in this process."""
    points = Points(last)
    send = AsyncProducer.send_together

    def pointed(self: AsyncProducer, subject: str, messages: Sequence[Encoded], **options: Any) -> None:
        [(message_id, entry, callback), *others] = messages

        def respond(outcome: Outcome) -> None:
            points.reach("after the answer")
            callback(outcome)

        points.reach("before the request")
        send(self, subject, [(message_id, entry, respond), *others], **options)
        self._queue.loop.call_soon(points.reach, "after the request")

    AsyncProducer.send_together = pointed  # type: ignore[method-assign]
    with Producer(meta_url, app="tests") as producer:
        relay = Relay(partial(pointed_connection, address, points), producer)
        relay.run_pass()
        relay.close()


def in_a_fork(work: Callable[[], None]) -> int:
    """Run in a fork; how it ended, as `os.waitstatus_to_exitcode` says it."""
    child = os.fork()
    if not child:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def prepare(address: Address, name: str) -> None:
    """Rows of this round and no lease; without a name, a lease that has ended."""
    table = Table(address)
    table.connection.change(f"DELETE FROM {LEASE_TABLE}" if name else f"UPDATE {LEASE_TABLE} SET until_ms = 1")
    if name:
        table.add(*(content(SUBJECT, f"{name}-{number}", str(number)) for number in range(ROWS)))
    table.connection.close()


def left(address: Address) -> int:
    connection = connect(address)
    [[count]] = connection.rows(f"SELECT count(*) FROM {TABLE}")
    connection.close()
    return int(count)


def main(url: str, meta_url: str, rounds: int) -> None:
    address = Address.parse(url)
    for round_ in range(rounds):
        point = 0
        while True:
            point += 1
            prepare(address, f"{round_}-{point}")
            ended = in_a_fork(partial(relay_once, address, meta_url, point))
            print(json.dumps({"ended": ended, "left": left(address)}), flush=True)
            prepare(address, "")
            code = in_a_fork(partial(relay_once, address, meta_url, 0))
            print(json.dumps({"recovered": code, "left": left(address)}), flush=True)
            if ended != -signal.SIGKILL:
                break


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
