"""`python -m benchmarks.outbox_paused`: one of three registered databases stands still (SIGSTOP); prints a table.

A whole control plane with its outbox worker relays two PostgreSQL databases and a MariaDB. Rows that are due are inserted into
two of them, and pages are read from the API, for a minute as usual and for a minute while the third stands still. A row's wait is
the time until it is sent and deleted: passes begin every five seconds. Nothing here asserts: figures go to docs/performance.md by
hand, with the date.
"""

import argparse
import os
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from console.launcher.programs import Ports, programs
from qmq.outbox.databases import Connection, connect
from tests.support.console.business import Business, content, on_server
from tests.support.servers.processes import Process
from tests.support.servers.services import MariadbServer, PostgresqlServer, running
from tests.support.servers.system import System

SECONDS = 60.0
EVERY_SECONDS = 0.25
"""Between two rows of a database, and two looks."""
PATH = "/outbox/databases/"


class Waits:
    """Inserts rows that are due into one database, and measures how long each is there."""

    def __init__(self, business: Business) -> None:
        self._business = business
        self._connection: Connection = connect(business.address)
        self._since: dict[int, float] = {}
        self.seconds: list[float] = []

    def look(self) -> None:
        """Note the rows that are gone, and insert one."""
        now = time.monotonic()
        there = {row[0] for row in self._connection.rows("SELECT id FROM qmq_msg_queue")}
        self.seconds += [now - since for row_id, since in self._since.items() if row_id not in there]
        self._since = {row_id: since for row_id, since in self._since.items() if row_id in there}
        self._business.insert(content())
        [[last]] = self._connection.rows("SELECT coalesce(max(id), 0) FROM qmq_msg_queue")
        self._since[last] = now


def part(values: list[float], share: float) -> float:
    """The value at this share of sorted ones."""
    return values[int((len(values) - 1) * share)]


def measure(name: str, plane: System, others: list[Waits], keys: list[str]) -> None:
    """One line: waits of rows, and times of pages."""
    pages: list[float] = []
    for waits in others:
        waits.seconds.clear()
    ends_at = time.monotonic() + SECONDS
    while time.monotonic() < ends_at:
        next_at = time.monotonic() + EVERY_SECONDS
        for waits in others:
            waits.look()
        for path in (PATH, *(f"{PATH}{key}/" for key in keys), f"{PATH}{keys[-1]}/rows/"):
            began = time.perf_counter()
            plane.get(path)
            pages.append(time.perf_counter() - began)
        time.sleep(max(0.0, next_at - time.monotonic()))
    waits_ms = sorted(seconds for waits in others for seconds in waits.seconds)
    pages.sort()
    print(
        f"{name:10} rows {len(waits_ms):4}  p50 {part(waits_ms, 0.5):5.2f} s  p99 {part(waits_ms, 0.99):5.2f} s"
        f"  pages {len(pages):4}  p50 {part(pages, 0.5) * 1e3:4.0f} ms  p99 {part(pages, 0.99) * 1e3:4.0f} ms"
        f"  longest {pages[-1] * 1e3:4.0f} ms",
        flush=True,
    )


def main() -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    with ExitStack() as stack:
        enter = stack.enter_context
        settings = {"QMQ_OUTBOX_NETWORKS": "127.0.0.0/8"}
        folder = Path(enter(tempfile.TemporaryDirectory()))
        plane = enter(System(folder, console=True, workers=0, beats=1, settings=settings))
        plane.prepare()
        plane.start_nodes()
        plane.console.start()
        plane.beats[0].start(wait=False)
        servers = [enter(running(kind)) for kind in (PostgresqlServer, PostgresqlServer, MariadbServer)]
        businesses = [enter(on_server(server, f"paused_{os.getpid()}")) for server in servers]
        keys = []
        for number, business in enumerate(businesses):
            business.make_tables()
            keys.append(str(plane.post(PATH, business.values(name=f"shop-{number}"))["target"]))
        (program,) = (each for each in programs("/data", Ports.choose(9000), "x") if each.name == "outbox")
        worker = Process("outbox", list(program.command), plane.folder, "", plane.environment)
        worker.start(wait=False)
        stack.callback(worker.stop)
        others = businesses[1:]
        while any(plane.get(f"{PATH}{key}/")["pending"] is None for key in keys):
            time.sleep(1.0)
        waits = [Waits(business) for business in others]
        measure("as usual", plane, waits, keys)
        with servers[0].paused():
            measure("one paused", plane, waits, keys[1:])
        measure("after it", plane, waits, keys)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
