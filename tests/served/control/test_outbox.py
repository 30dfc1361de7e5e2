"""The outbox worker as it is started in production: what it relays while a database stands still, and how it ends."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from console.launcher.programs import Ports, programs
from tests.support.console.business import Business, content, in_folder, on_server
from tests.support.servers.processes import Process
from tests.support.servers.services import Server
from tests.support.servers.system import System
from tests.support.waiting import ASK_SECONDS, eventually, timed

PATH = "/outbox/databases/"
PAGE_SECONDS_MAX = 0.2
"""How much longer a page may take while a database stands still, on an idle machine."""


@pytest.fixture
def shop(tmp_path: Path) -> Business:
    folder = tmp_path / "files"
    folder.mkdir()
    found = in_folder(folder)
    found.make_tables()
    return found


@pytest.fixture
def plane(make_plane: Callable[..., System], shop: Business) -> System:
    settings = {"QMQ_OUTBOX_NETWORKS": "127.0.0.0/8", "QMQ_OUTBOX_SQLITE_FOLDER": str(shop.folder)}
    found = make_plane(groups=1, workers=0, settings=settings)
    found.prepare()
    found.start_nodes()
    found.console.start()
    for beat in found.beats:
        beat.start(wait=False)
    return found


@pytest.fixture
def worker(plane: System) -> Iterator[Process]:
    """The worker that `up` starts for the queue of this job."""
    (program,) = (each for each in programs("/data", Ports.choose(9000), "x") if each.name == "outbox")
    found = Process("outbox", list(program.command), plane.folder, "", plane.environment)
    try:
        found.start(wait=False)
        yield found
    finally:
        found.stop()


def register(plane: System, business: Business, name: str) -> str:
    return str(plane.post(PATH, business.values(name=name))["target"])


def row(plane: System, key: str) -> dict[str, Any]:
    found: dict[str, Any] = plane.get(f"{PATH}{key}/")
    return found


def test_rows_are_relayed_while_another_database_stands_still_and_pages_are_answered(
    plane: System, worker: Process, shop: Business, postgresql_server: Server
) -> None:
    with on_server(postgresql_server, f"served_{os.getpid()}") as other:
        other.make_tables()
        mine, stuck = register(plane, shop, "shop"), register(plane, other, "other")
        for number, business in enumerate((shop, other)):
            business.insert(content(message_id=f"m{number}"))
        eventually(lambda: not shop.statuses() and not other.statuses(), what="rows of both are sent")
        eventually(lambda: row(plane, stuck)["pending"] == 0, what="the numbers are measured", every_s=ASK_SECONDS)
        with postgresql_server.paused():
            eventually(lambda: row(plane, stuck)["unknown"] == "failed", what="it is unknown", every_s=ASK_SECONDS)
            with timed("three pages while a database stands still", 3 * PAGE_SECONDS_MAX):
                assert len(plane.get(PATH)["results"]) == 2
                assert row(plane, stuck)["pending"] is None
                assert plane.get(f"{PATH}{mine}/rows/")["results"] == []
            shop.insert(content(message_id="m2"))
            eventually(lambda: not shop.statuses(), what="the other database's row is sent")
            answer = plane.ask("GET", f"{PATH}{stuck}/rows/")
            assert (answer.status, answer.body["code"]) == (503, "database.timeout")
            assert row(plane, mine)["unknown"] is None
        other.insert(content(message_id="m3"))
        eventually(lambda: not other.statuses(), what="its row is sent when it is back")
        eventually(lambda: row(plane, stuck)["unknown"] is None, what="it is known again", every_s=ASK_SECONDS)
        assert plane.job("outbox")["failures"] == "0"


def test_a_worker_that_is_stopped_gives_the_lease_back_and_a_killed_one_is_replaced(
    plane: System, worker: Process, shop: Business
) -> None:
    register(plane, shop, "shop")
    lease = "SELECT until_ms > 0 FROM qmq_outbox_lease"
    shop.insert(content(message_id="m0"))
    eventually(lambda: not shop.statuses(), what="the row is sent")
    assert shop.rows(lease) == [(1,)]
    assert worker.stop() == 0
    assert shop.rows(lease) == [(0,)], "given back"
    shop.insert(content(message_id="m1"))
    worker.start(wait=False)
    eventually(lambda: not shop.statuses(), what="the next worker sends the rest")
    worker.kill()
    shop.insert(content(message_id="m2"))
    worker.start(wait=False)
    eventually(lambda: not shop.statuses(), what="the hold and the lease of the killed one have ended")
    assert "ERROR" not in worker.log()
