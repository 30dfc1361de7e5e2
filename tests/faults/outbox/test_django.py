"""A Django program killed at each point: business row and messages exist both or neither."""

from pathlib import Path

import pytest

from qmq.outbox.databases import Kind
from tests.faults.outbox.databases import EXPECTED, database_for
from tests.faults.outbox.points import ROUNDS, kill_at_each_point
from tests.support.servers.shared import NewSystems


@pytest.mark.slow
@pytest.mark.timeout(300 * ROUNDS)
@pytest.mark.parametrize("kind", list(Kind))
def test_a_program_with_django_is_killed_at_each_point(
    kind: Kind, tmp_path: Path, new_system: NewSystems, request: pytest.FixtureRequest
) -> None:
    system = new_system(groups=1)
    system.start()
    with database_for(kind, tmp_path, request) as database:
        kill_at_each_point("django", database, system, tmp_path, expected=EXPECTED[kind])
