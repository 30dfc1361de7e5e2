"""The demo against a whole system: what it loads, that it may be run again, and what it says when it can't."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers.ports import free_port
from tests.support.servers.processes import PROJECT
from tests.support.servers.shared import NewSystems
from tests.support.servers.system import WHOLE, System
from tests.support.waiting import ASK_SECONDS, eventually
from tests.support.whole import in_whole_story_runs

pytestmark = in_whole_story_runs

RUN_SECONDS = 200.0


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with NewSystems(tmp_path_factory.mktemp("demo")) as create:
        found = create(**WHOLE)
        found.start()
        yield found


def start(console: System, out: Path, *flags: str, **environment: str) -> "subprocess.Popen[bytes]":
    with out.open("wb") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "examples.shop", *flags], cwd=PROJECT, stdout=file, stderr=subprocess.STDOUT,
            env={**os.environ, **console.environment, "PYTHONUNBUFFERED": "1", **environment},
        )  # fmt: skip


def run(console: System, out: Path, *flags: str, **environment: str) -> tuple[int, str]:
    process = start(console, out, *flags, **environment)
    try:
        return process.wait(RUN_SECONDS), out.read_text()
    finally:
        process.kill()


def counts(console: System) -> dict[str, int]:
    lists = ("subjects", "consumer-groups", "teams", "alert-rules", "silences")
    return {name: len(console.get(f"/{name}/?limit=500")["results"]) for name in lists}


def test_it_loads_a_shop_and_may_be_run_again(console: System, tmp_path: Path) -> None:
    flags = ("--console", console.url, "--seconds", "1", "--rate", "100")
    code, said = run(console, tmp_path / "first", *flags)
    assert code == 0, said
    file = Path(console.environment["QMQ_DATA_DIR"]) / "initial_passwords"
    assert f"user maria.keller, operator, password in {file}\n" in said
    passwords = dict(line.split() for line in file.read_text().splitlines())
    assert {"demo", "maria.keller"} <= passwords.keys()
    assert not any(password in said for password in passwords.values()), "what is printed may be kept in a log"
    first = counts(console)
    assert (first["subjects"], first["consumer-groups"], first["teams"]) == (42, 97, 8)

    def group(name: str) -> Any:
        return console.get(f"/consumer-groups/{name}/")

    assert group("order.created/fraud-check")["lag"] > 0
    assert group("product.changed/search-index")["lag"] > 0
    assert group("refund.requested/ledger")["is_paused"]
    calendar = console.get("/delayed-messages/calendar/")
    assert sum(hour["pending"] for hour in calendar["hours"]) > 3_900
    letters = eventually(
        lambda: console.get("/dead-letters/")["results"], what="spoiled messages are dead letters", every_s=ASK_SECONDS
    )
    assert {(item["subject"], item["group"]) for item in letters} <= {
        ("payment.requested", "card-gateway"),
        ("support.ticket", "helpdesk"),
    }
    eventually(
        lambda: any(
            item["rule"] == "Fraud check falls behind" for item in console.get("/alerts/?state=firing")["results"]
        ),
        what="an alert fires",
    )

    code, said = run(console, tmp_path / "second", *flags)
    assert code == 0, said
    assert "0 of 147 created or changed" in said
    assert "user maria.keller" not in said
    assert "delayed messages: 60 sent" in said
    assert counts(console) == first


def test_ctrl_c_ends_it_in_good_order(console: System, tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = start(console, out, "--console", console.url)
    try:
        eventually(lambda: " sent, " in out.read_text(), what="it sends")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    finally:
        process.kill()
    assert "ended: " in out.read_text()


def test_without_a_system_it_says_what_to_do(console: System, tmp_path: Path) -> None:
    code, said = run(console, tmp_path / "out", "--console", f"http://127.0.0.1:{free_port()}")
    assert code == 1
    assert "start the system with `make up`, or say where it is with --port-base or --console" in said


def test_another_systems_data_are_told_from_this_ones(console: System, tmp_path: Path) -> None:
    code, said = run(console, tmp_path / "out", "--console", console.url, "--data-dir", str(tmp_path / "empty"))
    assert code == 1
    assert "does the system use this folder?" in said


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--rate", "0"), "must be a number above 0"),
        (("--rate", "5000"), "up to 2000 messages per second"),
        (("--seconds", "nan"), "must be a number above 0"),
        (("--port-base", "80"), "a port from 1024"),
        (("--console", "ftp://x"), "not a console URL"),
    ],
)
def test_bad_flags_are_refused(console: System, tmp_path: Path, flags: tuple[str, str], words: str) -> None:
    code, said = run(console, tmp_path / "out", *flags)
    assert code in (1, 2)
    assert words in said
