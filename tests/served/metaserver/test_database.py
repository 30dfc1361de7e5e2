"""The metaserver and the database this run is on."""

import os
from pathlib import Path

import pytest

from tests.support.servers.processes import get_json
from tests.support.servers.system import System
from tests.support.waiting import eventually

ENGINES = {"": "sqlite", "sqlite": "sqlite", "postgres": "postgresql", "mysql": "mysql"}


@pytest.mark.database
@pytest.mark.django_db
def test_this_run_is_on_the_database_it_says_it_is() -> None:
    from django.db import connection

    assert connection.vendor == ENGINES[os.environ.get("QMQ_DATABASE_URL", "").partition(":")[0]]


@pytest.mark.database
def test_a_metaserver_makes_its_tables_and_finds_its_routes_there_again(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QMQ_META_DATABASE_URL", database_url)
    system = System(tmp_path, groups=1)
    pages = f"http://127.0.0.1:{system.http_port}/meta"

    def is_stored() -> bool:
        state = get_json(f"{pages}/cluster")["metaserver"]
        return state["not_stored_yet"] == 0 and state["database"] == "up" and state["subjects"] == 1

    try:
        system.start()
        sent = system.qmq("produce", "orders", "-p", "a=1")
        assert sent.returncode == 0, sent.stderr
        eventually(is_stored, what="the route is stored")
        before = get_json(f"{pages}/subjects/orders")
        system.meta.kill()
        # Without the file it keeps beside, only the database is left to know.
        for path in (tmp_path / "meta").glob("*.json*"):
            path.unlink()
        system.meta.start()
        assert get_json(f"{pages}/subjects/orders") == before
        # Others than about the limit of open files, which is the machine's.
        assert "WARNING qmq.meta" not in system.meta.log()
    finally:
        system.stop()
