"""What a system of `make up` keeps to itself, starts again and leaves behind. Runs in this order."""

import os
import signal
import socket
import stat
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import redis

from console.launcher.redis_server import redis_url
from tests.support.servers.processes import PROJECT, answers
from tests.support.servers.up import Up
from tests.support.waiting import ASK_SECONDS, eventually, timed

OTHERS = stat.S_IRWXG | stat.S_IRWXO


def password(up: Up) -> str:
    return (up.data_dir / "redis_password").read_text().strip()


def works(up: Up, token: str) -> bool:
    """Whether all parts that meet in Redis do their work: beat and workers, collector, API."""
    jobs = {row["name"]: row["succeeded_at"] for row in up.get("/jobs/", token)["results"]}
    return bool(jobs["heartbeats"]) and bool(jobs["moves"]) and up.get("/lag/", token)["reason"] is None


def test_no_file_or_folder_is_open_to_other_users(up: Up, token: str) -> None:
    places = [up.data_dir, *up.data_dir.rglob("*")]
    names = {path.name for path in places}
    assert {
        "meta.sqlite3",
        "secret_key",
        "redis_password",
        "redis.conf",
        "up.lock",
        "node.json",
        "old.parquet",
    } <= names
    assert names & {"meta.sqlite3-wal", "meta.sqlite3-shm"}, "files of the running database"
    eventually(lambda: (up.data_dir / "meta/routes.json").exists(), what="the route file is written")
    found = {str(path): oct(mode) for path in up.data_dir.rglob("*") if (mode := status(path)) & OTHERS}
    assert found == {}
    assert stat.S_IMODE(up.data_dir.stat().st_mode) == 0o700


def status(path: Path) -> int:
    try:
        info = path.lstat()
    except FileNotFoundError:
        return 0  # temporary files come and go
    return 0 if stat.S_ISLNK(info.st_mode) else stat.S_IMODE(info.st_mode)


def test_redis_serves_all_parts_of_the_system_and_nobody_else(up: Up, token: str) -> None:
    eventually(lambda: works(up, token), what="jobs run and live numbers are there", every_s=ASK_SECONDS)
    with closing(socket.create_connection(("127.0.0.1", up.base + 9), timeout=10)) as stranger:
        for command in ("KEYS *", "PUBLISH qmq:live:beat {}", "CONFIG GET *", "FLUSHALL", "CLIENT LIST"):
            stranger.sendall(f"{command}\r\n".encode())
            assert stranger.recv(1_000).startswith(b"-NOAUTH "), command
    with redis.Redis.from_url(redis_url(up.base + 9, password(up))) as owner:
        clients: Any = owner.client_list()
        assert len(clients) >= 5, "collector, workers, beat and this test"
        assert owner.exists("qmq:live:snapshot")


def test_a_redis_that_ends_is_started_again_with_its_password(up: Up, token: str) -> None:
    with redis.Redis.from_url(redis_url(up.base + 9, password(up))) as owner:
        pid = owner.info("server")["process_id"]
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: "redis ended with code -9, restarting it" in up.text(), what="Redis is started again")
        eventually(lambda: pings(owner), what="Redis answers")
        assert owner.info("server")["process_id"] != pid
        assert owner.config_get("requirepass")["requirepass"] == password(up)
        eventually(lambda: owner.exists("qmq:live:snapshot"), what="live numbers are there again")


def pings(client: Any) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


def test_secrets_are_in_no_output_and_on_no_command_line(up: Up, token: str) -> None:
    # After the test above: what clients log about a Redis that is away is part of the output.
    first = (up.data_dir / "initial_passwords").read_text().split()[1]
    key = (up.data_dir / "secret_key").read_text().strip()
    secrets = {"password of Redis": password(up), "first password": first, "secret key": key}
    assert len(set(secrets.values())) == 3
    assert up.process is not None
    commands = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                commands.append((entry / "cmdline").read_bytes())
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended
    assert any(str(up.data_dir).encode() in command for command in commands)
    for what, secret in secrets.items():
        assert secret not in up.text(), what
        assert not any(secret.encode() in command for command in commands), what
    assert f"password   in {up.data_dir}/initial_passwords" in up.text()


def test_a_broker_that_crashes_is_started_again(up: Up) -> None:
    (broker,) = [pid for pid, line in command_lines(up).items() if "g1-a" in line]
    os.kill(broker, signal.SIGKILL)
    eventually(lambda: "g1-a ended with code -9, restarting it" in up.text())
    members = [f"http://127.0.0.1:{up.base + place}" for place in (4, 11)]
    eventually(lambda: any(answers(f"{page}/readyz") for page in members), what="one of both serves")
    eventually(lambda: all(answers(f"{page}/healthz") for page in members), what="the broker runs again")


def test_a_second_start_is_refused(up: Up, tmp_path: Path) -> None:
    second = subprocess.run(up.command, capture_output=True, text=True, timeout=60, cwd=PROJECT, check=False)
    assert second.returncode == 2
    assert "another system is running in" in second.stderr
    elsewhere = [*up.command[:4], str(tmp_path / "other"), *up.command[5:]]
    third = subprocess.run(elsewhere, capture_output=True, text=True, timeout=60, cwd=PROJECT, check=False)
    assert third.returncode == 2
    assert f"port {up.base} (console) is in use" in third.stderr
    assert answers(f"http://127.0.0.1:{up.base}/healthz")


def test_a_restarted_system_keeps_its_secrets_and_leaves_no_process(up: Up) -> None:
    kept = {name: (up.data_dir / name).read_text() for name in ("redis_password", "secret_key")}
    assert up.stop() == 0
    assert command_lines(up) == {}
    with timed("a second start is ready", 60):
        up.start()
    assert {name: (up.data_dir / name).read_text() for name in kept} == kept
    token = up.token("read")
    eventually(lambda: works(up, token), what="jobs run and live numbers are there", every_s=ASK_SECONDS)
    assert up.stop() == 0
    assert command_lines(up) == {}


def command_lines(up: Up) -> dict[int, str]:
    """The command lines of its processes, by process id."""
    listed = subprocess.run(["ps", "-eww", "-o", "pid,args"], capture_output=True, text=True, check=True).stdout
    return {int(line.split()[0]): line for line in listed.splitlines() if str(up.data_dir) in line}
