"""Every program of the client guide runs as it is written, and mypy and pyright accept it; its table of defaults is right."""

import importlib.util
import inspect
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import qmq
from qmq import Backoff, Limits, Producer, Timeouts
from tests.served.docs.pages import PAGE
from tests.served.testing.runs import RunTests
from tests.served.testing.runs import run_tests as run_tests
from tests.support.required import missing
from tests.support.servers.processes import PROJECT
from tests.support.servers.system import System
from tests.support.waiting import eventually
from tools.frontend import BuildFailed, Frontend
from tools.node import Node, NodeMissing

pytest_plugins = ["pytester"]

BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.S | re.M)
PROGRAMS = {name: block for block in BLOCKS for name in re.findall(r"\A# (\w+\.py)\n", block)}
WORDS_PER_MINUTE = 220
MINUTES_MAX = 15
SECONDS = 120
ADDRESS = "localhost:8080"

MODULES = {"orders.py", "slow.py"}
"""Print nothing."""
ENDING = {
    "send.py": "stored ",
    "send_many.py": "1000 orders stored",
    "remind.py": "rescheduled: done\ncancelled: done",
    "bodies.py": "the body can't be decoded as Order: field 'number'",
    "tenants.py": "report sales for acme",
}
"""Programs that end, with what they print."""
RUNNING = {
    "audit.py": ("order 17 of ada", signal.SIGINT),
    "worker.py": ("billed order 17 attempt 1", signal.SIGTERM),
    "load.py": ("loaded ", signal.SIGINT),
    "shipping.py": ("shipped order 17 after no retry", signal.SIGTERM),
    "invoices.py": ("wrote invoice 17", signal.SIGINT),
}
"""Programs that run until a signal ends them, with what they print for the order of send.py."""
TESTS = {"test_worker.py"}


def put(folder: Path, address: str) -> None:
    """Write all programs into a folder."""
    for name, block in PROGRAMS.items():
        (folder / name).write_text(block.replace(ADDRESS, address))


@pytest.fixture
def guide(tmp_path: Path, served: System) -> Path:
    """A folder with the programs, for the running system."""
    put(tmp_path, served.meta_url)
    return tmp_path


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(PROJECT), "XDG_STATE_HOME": str(folder)}


def run(folder: Path, name: str) -> str:
    """Run a program to its end; what it prints."""
    done = subprocess.run(
        [sys.executable, name],
        capture_output=True, text=True, timeout=SECONDS, cwd=folder, env=_environment(folder), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextmanager
def running(folder: Path, name: str, ending: signal.Signals) -> Iterator[Path]:
    """Run a program until the end of the block, then end it with a signal; the file of its output."""
    output = folder / f"{name}.log"
    with open(output, "w") as file:
        process = subprocess.Popen(
            [sys.executable, name], stdout=file, stderr=subprocess.STDOUT, cwd=folder, env=_environment(folder)
        )
    try:
        yield output
        process.send_signal(ending)
        code = process.wait(SECONDS)
        # Python ends itself with SIGINT after a KeyboardInterrupt.
        assert code == (0 if ending == signal.SIGTERM else -signal.SIGINT), output.read_text()
    except AssertionError as error:
        raise AssertionError(f"{error}\n{name} printed:\n{output.read_text()}") from error
    finally:
        process.kill()
        process.wait()


def printed(output: Path, text: str) -> None:
    """Wait until a running program has printed a text."""
    eventually(lambda: text in output.read_text(), what=text)


def test_every_block_is_a_program_with_a_name() -> None:
    assert len(PROGRAMS) == len(BLOCKS)
    assert set(PROGRAMS) == MODULES | set(ENDING) | set(RUNNING) | TESTS


def test_reading_the_guide_takes_fifteen_minutes() -> None:
    assert len(PAGE.split()) / WORDS_PER_MINUTE <= MINUTES_MAX


@pytest.mark.parametrize("name", sorted(MODULES))
def test_a_module_can_be_imported(guide: Path, name: str) -> None:
    assert run(guide, name) == ""


@pytest.mark.parametrize("name", ENDING)
def test_a_program_ends_with_what_it_should_print(guide: Path, name: str) -> None:
    assert ENDING[name] in run(guide, name)


@pytest.mark.parametrize("name", RUNNING)
def test_a_consumer_processes_an_order_and_stops(guide: Path, name: str) -> None:
    run(guide, "send.py")
    text, ending = RUNNING[name]
    with running(guide, name, ending) as output:
        printed(output, text)


def test_an_order_that_is_sold_out_is_shipped_after_retries(guide: Path) -> None:
    run(guide, "send_many.py")
    with running(guide, "shipping.py", signal.SIGTERM) as output:
        printed(output, "after SoldOut")
    assert "messages return to the group" in output.read_text()


async def test_a_message_that_is_sent_twice_makes_one_invoice(guide: Path, served: System) -> None:
    order = {"number": 4711, "customer": "ada", "amount": "19.90"}
    async with Producer(served.meta_url) as producer:
        for _ in range(2):
            await producer.send("order.placed", order, message_id="order-4711")
    with running(guide, "invoices.py", signal.SIGINT) as output:
        printed(output, "message order-4711 was processed before and is skipped")
    with sqlite3.connect(guide / "invoices.sqlite3") as database:
        found = database.execute("SELECT amount FROM invoices WHERE number = 4711").fetchall()
    database.close()
    assert [Decimal(amount) for (amount,) in found] == [Decimal("19.90")]


def test_a_batch_is_in_the_database(guide: Path) -> None:
    run(guide, "send_many.py")
    with running(guide, "load.py", signal.SIGINT) as output:
        printed(output, "loaded ")
        eventually(lambda: _rows(guide) >= 1000, what="the orders of send_many.py in the database")


def _rows(folder: Path) -> int:
    with sqlite3.connect(folder / "warehouse.sqlite3") as database:
        (count,) = database.execute("SELECT count(*) FROM orders").fetchone()
    database.close()
    return int(count)


def test_the_tests_of_the_guide_pass(run_tests: RunTests, pytester: pytest.Pytester) -> None:
    put(pytester.path, ADDRESS)
    tests = {name.removesuffix(".py"): PROGRAMS[name] for name in TESTS}
    expected = sum(len(re.findall(r"^(?:async )?def test_", text, re.M)) for text in tests.values())
    assert expected >= 2
    run_tests(tests).assert_outcomes(passed=expected)


# --- types ----------------------------------------------------------------------------------------------------------


def test_mypy_accepts_the_programs(tmp_path: Path) -> None:
    if importlib.util.find_spec("mypy") is None:
        missing("mypy is not installed")
    put(tmp_path, ADDRESS)
    done = subprocess.run(
        [
            sys.executable, "-m", "mypy", "--strict", "--config-file=", "--python-version=3.11", "--follow-imports=silent",
            *PROGRAMS,
        ],
        capture_output=True, text=True, timeout=SECONDS, check=False, cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(PROJECT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def node() -> Node:
    """Node.js, with the packages of the front end, pyright among them."""
    try:
        return Frontend(PROJECT).install()
    except (BuildFailed, NodeMissing) as error:
        missing(f"pyright is not installed: {error}")


def test_pyright_accepts_the_programs(node: Node, tmp_path: Path) -> None:
    put(tmp_path, ADDRESS)
    settings = {"include": ["."], "extraPaths": [str(PROJECT)], "pythonVersion": "3.11", "typeCheckingMode": "strict"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [
            str(node.node), str(PROJECT / "frontend/node_modules/pyright/index.js"),
            "--project", str(tmp_path), "--pythonpath", sys.executable, "--outputjson",
        ],
        capture_output=True, text=True, timeout=SECONDS, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    problems = [
        f"{Path(one['file']).name}:{one['range']['start']['line'] + 1}: {one['message']}"
        for one in report["generalDiagnostics"]
    ]
    assert problems == []
    assert report["summary"]["filesAnalyzed"] == len(PROGRAMS)
    assert done.returncode == 0


# --- defaults -------------------------------------------------------------------------------------------------------

TABLE = re.findall(r"^\| `([A-Z][\w.]+(?:\(\w+=\))?)` \| ([^|]+) \|", PAGE.partition("\n## Tuning\n")[2], re.M)


def _default(setting: str) -> Any:
    """The default of `Limits.name`, `Class(argument=)` or `Class.method(argument=)`."""
    call = re.fullmatch(r"(\w+)(?:\.(\w+))?\((\w+)=\)", setting)
    if call is None:
        group, _, name = setting.partition(".")
        return getattr(getattr(qmq, group)(), name)
    owner, method, argument = call.groups()
    return inspect.signature(getattr(getattr(qmq, owner), method or "__init__")).parameters[argument].default


def _shown(setting: str, value: Any) -> str:
    """A default as the table shows it."""
    if setting.endswith("_bytes"):
        assert value % (1 << 20) == 0
        return f"{value >> 20} MiB"
    is_seconds = setting.startswith("Timeouts.") or setting.endswith(("first", "longest", "linger=)", "seconds=)"))
    return f"{value:g} s" if is_seconds else f"{value:,g}"


def test_the_table_has_the_defaults() -> None:
    assert dict(TABLE) == {setting: _shown(setting, _default(setting)) for setting, _ in TABLE}


def test_the_table_has_every_limit() -> None:
    every = {f"{group.__name__}.{field.name}" for group in (Limits, Timeouts, Backoff) for field in fields(group)}
    assert every <= {setting for setting, _ in TABLE}
    assert sum("=)" in setting for setting, _ in TABLE) == 6


def test_the_page_of_limits_has_the_prefetch_limits() -> None:
    limits = Limits()
    row = f"| messages a consumer holds | {limits.prefetch_messages:,}, and {limits.prefetch_bytes >> 20} MiB |"
    assert row in (PROJECT / "docs/reference/limits.md").read_text()


def test_the_defaults_in_the_text_are_those_of_the_code() -> None:
    delivery, ack = Timeouts().delivery, Timeouts().ack
    assert f"up to {delivery:g} seconds" in " ".join(PAGE.split())
    assert f"| `Producer.close` | sends what is queued | {delivery:g} s |" in PAGE
    (shown,) = re.findall(r"^\| `Consumer.close` \|[^|]*\| (\d+) s \|", PAGE, re.M)
    assert float(shown) == 2 * ack
