"""kill -9 of a consumer with a marker, before and after each statement, commit and acknowledgement: the effect happens once."""

import contextlib
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from qmq.sync import Producer
from qmq_testing import Server
from tests.faults.marked_consumer import EFFECTS, FACES
from tests.served.idempotent.databases import Database
from tests.support.promises import judging
from tests.support.servers.processes import Process
from tests.support.servers.services import own_database
from tests.support.whole import in_whole_fault_runs

KILLS = 20 if os.environ.get("QMQ_FAULTS") == "full" else 1
"""Of each step."""


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    with contextlib.ExitStack() as stack:
        if request.param == "sqlite":
            url = f"sqlite:///{tmp_path}/own.sqlite3"
            (tmp_path / "own.sqlite3").touch()
        else:
            server = request.getfixturevalue(f"{request.param}_server")
            url = stack.enter_context(own_database(server.url, f"qmq_marker_{os.getpid()}"))
        found = Database(url)
        found.make_tables()
        yield found


def consume(folder: Path, name: str, face: str, server: Server, database: Database, subject: str, step: int) -> Process:
    """Run the consumer to its end."""
    arguments = [face, server.url, subject, str(database.address), str(step)]
    process = Process(name, [sys.executable, "-m", "tests.faults.marked_consumer", *arguments], folder)
    process.start(wait=False)
    code = process.wait(120)
    assert code == (-signal.SIGKILL if step else 0), f"{code}:\n{process.log()}"
    return process


@pytest.mark.slow
@pytest.mark.timeout(3600 if KILLS > 1 else 300)
@pytest.mark.parametrize(
    "face", [name if name == "dbapi" else pytest.param(name, marks=in_whole_fault_runs) for name in FACES]
)
def test_a_kill_at_any_step_leaves_the_effect_once(database: Database, face: str, tmp_path: Path) -> None:
    with Server() as server, Producer(server.url) as producer:
        producer.send("counted", {}, message_id="counted")
        producer.send("counted", {"end": "1"})
        log = consume(tmp_path, "counted", face, server, database, "counted", 0).log()
        steps = [line.removeprefix("step ") for line in log.splitlines() if line.startswith("step ")]
        # The marker and the effects, the look before the commit, the commit, the acknowledgement.
        assert [name for name in steps if "COMMIT" in name or "ack" in name] == [
            "before COMMIT", "after COMMIT", "before ack", "after ack",
        ]  # fmt: skip
        assert sum(name.startswith("before INSERT") for name in steps) == 1 + len(EFFECTS), steps
        expected = Counter(f"counted {effect}" for effect in EFFECTS)
        for number in range(KILLS):
            for step in range(1, len(steps) + 1):
                subject = f"killed-{number}-{step}"
                producer.send(subject, {}, message_id=subject)
                killed = consume(tmp_path, f"{subject}-1", face, server, database, subject, step)
                assert killed.log().splitlines()[-1] == f"step {steps[step - 1]}"
                producer.send(subject, {"end": "1"})
                consume(tmp_path, f"{subject}-2", face, server, database, subject, 0)
                expected.update(f"{subject} {effect}" for effect in EFFECTS)
                with judging():
                    assert Counter(database.effects) == expected, f"killed {steps[step - 1]}"
                assert server.is_drained(subject, "billing")
        print(f"{face} on {database.kind}: {len(steps)} steps, each killed {KILLS} times: {steps}")
