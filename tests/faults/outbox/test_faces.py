"""Programs with SQLAlchemy and with DB-API drivers, killed at each point: business row and messages exist both or neither."""

from pathlib import Path

import pytest

from qmq.outbox.databases import Kind
from tests.faults.outbox.databases import EXPECTED, database_for
from tests.faults.outbox.points import kill_at_each_point
from tests.support.servers.shared import NewSystems

FACES = [(framework, kind) for framework in ("sqlalchemy", "dbapi") for kind in Kind]
FACES += [("sqlalchemy_async", Kind.SQLITE), ("sqlalchemy_async", Kind.POSTGRESQL)]


@pytest.mark.slow
@pytest.mark.parametrize(("framework", "kind"), FACES)
def test_a_program_is_killed_at_each_point(
    framework: str, kind: Kind, tmp_path: Path, new_system: NewSystems, request: pytest.FixtureRequest
) -> None:
    system = new_system(groups=1)
    system.start()
    with database_for(kind, tmp_path, request) as database:
        kill_at_each_point(framework, database, system, tmp_path, expected=EXPECTED[kind])
