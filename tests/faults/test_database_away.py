"""F28 on real servers: the metaserver's database stops or stands still under it, and comes back."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.servers.processes import get_json
from tests.support.servers.services import Server, own_database
from tests.support.servers.system import System
from tests.support.waiting import eventually


@pytest.mark.parametrize("server_name", ["postgresql_server", "mariadb_server"])
@pytest.mark.parametrize("fault", ["stopped", "paused"])
def test_f28_subjects_made_while_the_database_is_away_are_served_at_once_and_stored_later(
    server_name: str, fault: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    server: Server = request.getfixturevalue(server_name)
    with own_database(server.url, f"away_{fault}") as url:
        monkeypatch.setenv("QMQ_META_DATABASE_URL", url)
        system = System(tmp_path, groups=1)

        def state() -> dict[str, Any]:
            found: dict[str, Any] = get_json(f"http://127.0.0.1:{system.http_port}/meta/cluster")["metaserver"]
            return found

        def is_stored() -> bool:
            return state()["not_stored_yet"] == 0 and state()["database"] == "up"

        try:
            system.start()
            assert system.qmq("produce", "before", "-p", "a=1").returncode == 0
            eventually(is_stored, what="the first subject is stored")
            with getattr(server, fault)():
                sent = system.qmq("produce", "meanwhile", "-p", "a=1")
                assert sent.returncode == 0, sent.stderr
                assert state()["subjects"] == 2
                assert state()["not_stored_yet"] > 0
                if fault == "stopped":
                    eventually(
                        lambda: state()["database"].startswith("down: "), what="it says that the database is down"
                    )
            eventually(is_stored, what="the second subject is stored")
            # Only the database can tell the next start.
            system.meta.kill()
            for path in (tmp_path / "meta").glob("*.json*"):
                path.unlink()
            system.meta.start()
            assert state()["subjects"] == 2
        finally:
            system.stop()
