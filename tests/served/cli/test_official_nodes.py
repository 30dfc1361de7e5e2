"""Commands against a metaserver and a broker that answer like the official server."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from qmq.cli import main
from tests.served.cli.commands import ASKING
from tests.support.official.server import OfficialSystem, official_system


@pytest.fixture
def official() -> Iterator[OfficialSystem]:
    """The system, on a loop of its own thread."""
    started, systems = threading.Event(), []
    loop, ends = asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        async with official_system() as system:
            systems.append(system)
            started.set()
            await ends.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert started.wait(20)
        yield systems[0]
    finally:
        loop.call_soon_threadsafe(ends.set)
        thread.join()
        loop.close()


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    """The only line on standard error."""
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_commands_that_need_pages_name_the_kind_of_metaserver(
    official: OfficialSystem, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in ASKING:
        assert main([*arguments, "--meta", official.address]) == 1, arguments
        assert "this is a QMQ metaserver without PyQMQ's pages" in one_line(capsys), arguments


def test_apply_names_what_is_missing(
    official: OfficialSystem, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("QMQ_TOKEN", "t")
    (tmp_path / "document").write_text("{}")
    console = ["--console", f"http://{official.address}"]
    assert main(["apply", "-f", str(tmp_path / "document"), *console]) == 1
    assert "no PyQMQ console at this address" in one_line(capsys)


@pytest.mark.parametrize(
    "arguments",
    [
        ["consume", "orders", "g", "--count", "1"],
        ["consume", "orders", "g", "--from", "earliest"],
        ["bench", "consume", "orders", "--count", "1"],
    ],
    ids=" ".join,
)
def test_a_start_that_the_broker_cannot_place_ends_the_command_with_one_line(
    official: OfficialSystem, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "--meta", official.address]) == 1
    line = one_line(capsys)
    assert "cannot set the start of a consumer group" in line
    pulled = {request.subject for request in official.pulls}
    assert "orders" not in pulled, "a pull would have created the group at the end"


def test_consume_from_latest_works(official: OfficialSystem, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["consume", "orders", "g", "--from", "latest", "--timeout", "0.5", "--meta", official.address]) == 0
    assert "cannot place" not in capsys.readouterr().err
