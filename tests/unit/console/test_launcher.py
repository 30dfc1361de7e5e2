"""What `manage.py up` starts."""

import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import redis
from django.core.management import CommandError

from console.jobs import jobs
from console.launcher import child
from console.launcher.child import CRASHES_MAX, NODE_PAUSE_SECONDS, Child, GaveUp
from console.launcher.programs import GROUPS, Ports, Program, programs
from console.launcher.system import Launcher, stop_in_stages
from console.management.commands.up import Command
from console.management.passwords import command
from qmq.errors import SettingError
from tests.support.servers.ports import free_ports
from tests.support.servers.up import PORTS
from tests.support.waiting import eventually, eventually_async

PASSWORD = "a password of Redis"
WITHOUT_ANALYTICS = [
    "redis", "meta", "g1-a", "g1-b", "g2-a", "g2-b", "d1-a", "d1-b", "console", "collector", "worker", "outbox", "beat",
]  # fmt: skip


def started() -> dict[str, Program]:
    return {program.name: program for program in programs("/data", Ports.choose(9000), PASSWORD)}


def option(program: Program, name: str) -> str:
    return program.command[program.command.index(name) + 1]


def test_long_jobs_have_a_worker_of_their_own_that_is_there_before_beat_gives_the_word(monkeypatch: Any) -> None:
    monkeypatch.delenv("QMQ_REDIS_URL", raising=False)
    found = started()
    assert list(found) == [*WITHOUT_ANALYTICS[:-1], "analytics", "beat"]
    queues = [option(found[name], "--queues") for name in ("worker", "analytics", "outbox")]
    assert sorted(queues) == sorted({job.queue for job in jobs.JOBS.values()}), "each queue is served once"
    for number, name in ((1, "analytics"), (2, "outbox")):
        assert queues[number] == jobs.JOBS[name].queue
        assert option(found[name], "--pool") == "solo", "one call at a time, in one process"


def test_there_is_none_where_analytics_are_off(monkeypatch: Any, settings: Any) -> None:
    monkeypatch.delenv("QMQ_REDIS_URL", raising=False)
    settings.ANALYTICS_EVERY_SECONDS = 0
    assert list(started()) == WITHOUT_ANALYTICS


def test_the_password_of_redis_is_in_no_command_line_and_every_process_of_the_console_has_it(monkeypatch: Any) -> None:
    monkeypatch.delenv("QMQ_REDIS_URL", raising=False)
    found = started()
    quoted = quote(PASSWORD)
    for program in found.values():
        assert not any(PASSWORD in word or quoted in word for word in program.command), program.name
    url = f"redis://:{quoted}@127.0.0.1:9009/0"
    with_redis = [name for name, program in found.items() if program.environment.get("QMQ_REDIS_URL") == url]
    assert with_redis == ["console", "collector", "worker", "outbox", "analytics", "beat"]


def test_another_redis_is_used_as_it_is(monkeypatch: Any, tmp_path: Path) -> None:
    url = "redis://:theirs@redis.example:6379/1"
    monkeypatch.setenv("QMQ_REDIS_URL", url)
    found = started()
    assert "redis" not in found
    assert found["worker"].environment["QMQ_REDIS_URL"] == url
    Launcher(str(tmp_path / "data"), Ports.choose(9000))
    assert not (tmp_path / "data/redis_password").exists()


def test_groups_have_as_many_members_as_they_are_to_have() -> None:
    assert Ports.choose(None, {"g1": 3, "g2": 1, "d1": 1}).nodes == {
        "g1-a": (20881, 20981, 20882),
        "g1-b": (20887, 20987, 20888),
        "g1-c": (20891, 20991, 20892),
        "g2-a": (20883, 20983, 20884),
        "d1-a": (20885, 20985, 20886),
    }
    three = dict.fromkeys(GROUPS, 3)
    by_default = [*Ports.choose(None, three).named().values()]
    assert len(set(by_default)) == len(by_default) == PORTS, "all different"
    every = Ports.choose(9000, three)
    used = [*every.named().values()]
    assert sorted(used) == list(range(9000, 9000 + PORTS)), "all different, in a row"
    assert option(started()["meta"], "--copies") == "2"
    slave = started()["g1-b"]
    assert option(slave, "--sync-port") == "9020"
    assert option(started()["d1-b"], "--sync-port") == "9027"
    assert (slave.ready_url, slave.other_ready_urls) == (
        "http://127.0.0.1:9011/readyz",
        ("http://127.0.0.1:9004/readyz",),
    )


@pytest.mark.parametrize("copies", ["0", "4"])
def test_a_group_has_one_to_three_members(copies: str) -> None:
    with pytest.raises(CommandError, match=rf"--copies: invalid choice: {copies} \(choose from 1, 2, 3\)"):
        Command().create_parser("manage.py", "up").parse_args(["--copies", copies])


async def test_a_redis_that_does_not_start_is_reported_without_its_password(monkeypatch: Any) -> None:
    monkeypatch.setattr(child, "READY_SECONDS", 0.0)
    server = Child(started()["redis"], lambda *_: None)
    with pytest.raises(GaveUp, match=r"did not respond at redis://127\.0\.0\.1:9009/0 in 0 s"):
        await server.wait_ready()


def test_the_redis_of_a_system_refuses_clients_without_its_password(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.delenv("QMQ_REDIS_URL", raising=False)
    ports = Ports.choose(free_ports(PORTS))
    own = Launcher(str(tmp_path / "data"), ports)
    own.check()
    secret = tmp_path / "data/redis_password"
    assert [path.stat().st_mode & 0o777 for path in (secret.parent, secret, tmp_path / "data/redis.conf")] == [
        0o700,
        0o600,
        0o600,
    ]
    assert len(secret.read_text().strip()) >= 32
    (program,) = [child.program for child in own._children if child.program.name == "redis"]
    with subprocess.Popen(program.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            owner = redis.Redis.from_url(program.ready_url)
            eventually(lambda: answers(owner), what="Redis answers")
            owner.set("qmq:1:counter", "1")
            for url in (f"redis://127.0.0.1:{ports.redis}/0", f"redis://:wrong@127.0.0.1:{ports.redis}/0"):
                with redis.Redis.from_url(url) as stranger, pytest.raises(redis.AuthenticationError):
                    stranger.set("qmq:1:counter", "2")
            assert owner.get("qmq:1:counter") == b"1"
            with pytest.raises(redis.ResponseError, match="protected"):
                owner.config_set("dir", "/tmp")
        finally:
            owner.close()
            process.terminate()


def answers(client: Any) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


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
    given.parent.mkdir(mode=0o700)
    given.write_text("a" * 40)
    given.chmod(0o644)
    with pytest.raises(SettingError, match="chmod 0600"):
        Launcher(str(given.parent), ports).check()
    assert given.read_text() == "a" * 40, "kept"


async def watched(program: Program, ends: int) -> tuple[list[float], list[str]]:
    """The pauses before the restarts of a process that ends at once, and what was printed; it is stopped after so many ends."""
    pauses: list[float] = []
    lines: list[str] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == ends:
            await child.stop()

    child = Child(program, lambda name, text: lines.append(text), sleep)
    await child.start()
    await child.watch()
    return pauses, lines


ENDS = (sys.executable, "-S", "-c", "print('disk full'); raise SystemExit(1)")


async def test_a_node_that_keeps_ending_is_restarted_once_a_minute_and_stops_nothing_else() -> None:
    pauses, lines = await watched(Program("g1-a", ENDS, "", is_node=True), CRASHES_MAX + 4)
    assert pauses == [0.5, 1, 2, 4, 8, *[NODE_PAUSE_SECONDS] * 4]
    assert "g1-a ended with code 1, restarting it in 60 s" in lines


async def test_any_other_process_that_keeps_ending_stops_the_system() -> None:
    with pytest.raises(GaveUp, match=r"console ended 6 times within a minute .*disk full"):
        await watched(Program("console", ENDS, ""), 100)


def test_nodes_are_the_brokers_and_the_delay_nodes() -> None:
    assert [name for name, program in started().items() if program.is_node] == [
        "g1-a", "g1-b", "g2-a", "g2-b", "d1-a", "d1-b",
    ]  # fmt: skip


def test_the_groups_of_up_need_no_approval() -> None:
    assert option(started()["meta"], "--new-groups") == "allow"


def test_programs_stop_in_stages(monkeypatch: Any) -> None:
    monkeypatch.delenv("QMQ_REDIS_URL", raising=False)
    stages: dict[int, list[str]] = {}
    for program in started().values():
        stages.setdefault(program.stop_stage, []).append(program.name)
    assert stages == {
        3: ["redis", "meta"],
        2: ["g1-a", "g1-b", "g2-a", "g2-b"],
        1: ["d1-a", "d1-b", "console", "collector", "worker", "outbox", "analytics", "beat"],
    }


ENDING = """
import pathlib, signal, sys, time
own, other = map(pathlib.Path, sys.argv[1:])
def end(*_):
    own.touch()
    while not other.exists():
        time.sleep(0.01)
    print("ended", flush=True)
    sys.exit()
signal.signal(signal.SIGTERM, end)
print("runs", flush=True)
while True:
    time.sleep(60)
"""
"""Ends after SIGTERM when the other's file exists."""


@pytest.mark.parametrize("master", ["g1-a", "g1-b"])
async def test_programs_of_a_stage_stop_at_the_same_time_and_members_of_a_broker_group_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, master: str
) -> None:
    said: list[tuple[str, str]] = []

    async def answers(url: str) -> bool:
        return url == master

    monkeypatch.setattr("console.launcher.child._answers", answers)

    def child_of(name: str, waits_for: str, stage: int, group: str = "") -> Child:
        command = (sys.executable, "-c", ENDING, str(tmp_path / name), str(tmp_path / waits_for))
        program = Program(name, command, name, stop_stage=stage, broker_group=group)
        return Child(program, lambda *line: said.append(line))

    # Each waits for one that is stopped at the same time, or before.
    children = [
        child_of("meta", "g1-a", 3),
        child_of("g1-a", "g2-b", 2, "g1"),
        child_of("g1-b", "g2-b", 2, "g1"),
        child_of("g2-b", "g1-b", 2, "g2"),
        child_of("console", "beat", 1),
        child_of("beat", "console", 1),
    ]
    for one in children:
        await one.start()
    await eventually_async(lambda: [text for _, text in said].count("runs") == len(children), what="all run")
    await stop_in_stages(children)
    ended = [name for name, text in said if text != "runs"]
    assert {text for _, text in said} == {"runs", "ended"}, "none was killed"
    assert set(ended[:2]) == {"beat", "console"}
    assert ended[-1] == "meta"
    assert [name for name in ended if name.startswith("g1")][-1] == master, "a slave stops before its master"


def test_addresses_that_the_command_line_needs_are_printed_where_they_are_not_its_defaults(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def exports(base: int | None) -> set[str]:
        Launcher(str(tmp_path), Ports.choose(base))._table()
        lines = capsys.readouterr().out.splitlines()
        return {line.partition("export ")[2] for line in lines if "export " in line and "TOKEN_FILE" not in line}

    assert exports(None) == set()
    assert exports(9000) == {
        "QMQ_META=http://127.0.0.1:9001/meta/address",
        "QMQ_CONSOLE=http://127.0.0.1:9000",
    }


@pytest.mark.parametrize(
    ("program", "line"),
    [
        ("manage.py", "python manage.py reset_password NAME"),
        ("/opt/qmq/bin/qmq-console", "qmq-console reset_password NAME"),
    ],
)
def test_commands_that_texts_name_exist_where_they_are_read(monkeypatch: Any, program: str, line: str) -> None:
    monkeypatch.setattr(sys, "argv", [program, "up"])
    assert command("reset_password NAME") == line


class Recorded(Child):
    """Records what is done with it."""

    def __init__(self, program: Program, done: list[str]) -> None:
        super().__init__(program, lambda *_: None)
        self._done = done

    async def start(self) -> None:
        self._done.append(f"start {self.program.name}")

    async def wait_ready(self) -> None:
        self._done.append(f"{self.program.name} is ready")


async def test_redis_and_the_metaserver_are_ready_before_others_start(tmp_path: Path, monkeypatch: Any) -> None:
    """Else each logs "connection refused" until they are."""
    monkeypatch.delenv("QMQ_REDIS_URL", raising=False)
    done: list[str] = []
    running: list[Child] = []
    launcher = Launcher(str(tmp_path), Ports.choose(9000))
    launcher._children = [Recorded(child.program, done) for child in launcher._children]
    await launcher._start(running)
    assert done[:4] == ["start redis", "start meta", "redis is ready", "meta is ready"]
    assert [child.program.name for child in running] == [*WITHOUT_ANALYTICS[:-1], "analytics", "beat"]
    assert len(done) == 2 * len(running)
