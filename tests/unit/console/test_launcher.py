"""What `manage.py up` starts."""

from pathlib import Path
from typing import Any

import pytest

from console import tasks  # noqa: F401 - importing it makes the loops known
from console.launcher import Launcher, Ports, Program, programs
from console.tasks import loops
from qmq.errors import SettingError
from tests.support.ports import free_ports
from tests.support.up import PORTS

WITHOUT_ANALYTICS = ["redis", "meta", "g1-a", "g2-a", "d1-a", "console", "collector", "worker", "beat"]


def started() -> dict[str, Program]:
    return {program.name: program for program in programs("/data", Ports.choose(9000))}


def option(program: Program, name: str) -> str:
    return program.command[program.command.index(name) + 1]


def test_analytics_have_a_worker_of_their_own_that_is_there_before_beat_gives_the_word(monkeypatch: Any) -> None:
    monkeypatch.delenv("QMQ_REDIS_URL", raising=False)
    found = started()
    assert list(found) == [*WITHOUT_ANALYTICS[:-1], "analytics", "beat"]
    queues = [option(found[name], "--queues") for name in ("worker", "analytics")]
    assert sorted(queues) == sorted({loop.queue for loop in loops.LOOPS.values()}), "each queue is served once"
    assert queues[1] == loops.LOOPS["analytics"].queue
    assert option(found["analytics"], "--pool") == "solo", "one call at a time, in one process"


def test_there_is_none_where_analytics_are_off(monkeypatch: Any, settings: Any) -> None:
    monkeypatch.delenv("QMQ_REDIS_URL", raising=False)
    settings.ANALYTICS_EVERY_SECONDS = 0
    assert list(started()) == WITHOUT_ANALYTICS


def test_every_process_of_ours_shares_the_node_secret_of_the_data_folder(monkeypatch: Any) -> None:
    for variable in ("QMQ_NODE_TOKEN", "QMQ_NODE_TOKEN_FILE", "QMQ_REDIS_URL"):
        monkeypatch.delenv(variable, raising=False)
    files = {name: program.environment.get("QMQ_NODE_TOKEN_FILE") for name, program in started().items()}
    assert files.pop("redis") is None
    assert set(files.values()) == {"/data/node_token"}
    monkeypatch.setenv("QMQ_NODE_TOKEN_FILE", "/secrets/node")
    assert started()["g1-a"].environment["QMQ_NODE_TOKEN_FILE"] == "/secrets/node"
    monkeypatch.setenv("QMQ_NODE_TOKEN", "given in the environment, which children inherit")
    assert "QMQ_NODE_TOKEN_FILE" not in started()["g1-a"].environment


def test_a_start_makes_the_secret_once_and_refuses_one_that_others_may_read(tmp_path: Path, monkeypatch: Any) -> None:
    for variable in ("QMQ_NODE_TOKEN", "QMQ_NODE_TOKEN_FILE"):
        monkeypatch.delenv(variable, raising=False)
    ports = Ports.choose(free_ports(PORTS))
    Launcher(str(tmp_path / "new"), ports).check()
    secret = tmp_path / "new/node_token"
    assert (len(secret.read_text().strip()), secret.stat().st_mode & 0o777) == (43, 0o600)
    given = tmp_path / "old/node_token"
    given.parent.mkdir()
    given.write_text("a" * 40)
    given.chmod(0o644)
    with pytest.raises(SettingError, match="chmod 0600"):
        Launcher(str(given.parent), ports).check()
    assert given.read_text() == "a" * 40, "kept"
