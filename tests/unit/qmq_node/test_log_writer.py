"""Log lines never stop the process that writes them."""

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from qmq_node.process.log_writer import LogWriter


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def logger_to(writer: LogWriter) -> logging.Logger:
    logger = logging.Logger("test")
    logger.addHandler(writer)
    return logger


def read_until(fd: int, last: str) -> list[str]:
    """Lines up to the one that ends with `last`."""
    data = b""
    while not data.endswith(f"{last}\n".encode()):
        data += os.read(fd, 65536)
    return data.decode().splitlines()


async def test_a_pipe_that_is_not_read_does_not_stop_the_loop_and_the_critical_end_is_written(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qmq_node.process.log_writer.LINES_MAX", 500)
    reading, writing = pipe
    writer = LogWriter(writing)
    logger = logger_to(writer)
    for number in range(10_000):
        logger.warning("line %d %s", number, "x" * 100)
        if number % 1000 == 0:
            await asyncio.sleep(0)
    logger.critical("the process ends")
    # The thread may be taking some of them at any moment.
    assert len(writer._lines) <= 500
    writer.flush(0.0)
    lines = await asyncio.to_thread(read_until, reading, "the process ends")
    dropped = sum(int(line.split()[0]) for line in lines if "log lines were dropped" in line)
    # All but those dropped are there, in order; the critical line took the place of the oldest that waited.
    written = [int(line.split()[1]) for line in lines if line.startswith("line ")]
    assert written == sorted(written)
    assert written[0] in (0, 1), "those dropped are the newest, but for the critical line's place"
    assert len(written) + dropped == 10_000


def test_a_flush_waits_for_the_last_line_and_a_gone_reader_is_no_failure(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    writer = LogWriter(writing)
    logger = logger_to(writer)
    logger.info("done")
    writer.flush()
    assert os.read(reading, 100) == b"done\n"
    logger.info("%d", "not a number")
    writer.flush()
    assert b"can't be formatted" in os.read(reading, 1000)
    other_reading, other_writing = os.pipe()
    os.close(other_reading)
    gone = LogWriter(other_writing)
    logger_to(gone).info("x")
    gone.flush()
    assert not gone._lines
    os.close(other_writing)


PROGRAM = """
import logging, sys
from qmq_node.process.runner import set_up_logging
set_up_logging("info", sys.argv[1])
for number in range(10_000):
    logging.info("line %d %s", number, "x" * 100)
print("logged", flush=True)
try:
    raise OSError(5, "injected")
except OSError:
    logging.getLogger("qmq").critical("the process ends", exc_info=True)
"""


@pytest.mark.parametrize("form", ["plain", "json"])
def test_a_process_with_a_blocked_standard_error_gets_to_its_end_and_writes_its_last_line(form: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, form], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "logged\n", "10,000 lines are more than a pipe holds, and none was read yet"
        written = process.stderr.read()
    assert process.returncode == 0
    # Behind it stands the traceback, in as many lines as this Python prints.
    *_, last = (place for place, line in enumerate(written.splitlines()) if "the process ends" in line)
    behind = written.splitlines()[last + 1 :]
    assert (behind == []) if form == "json" else behind[0].startswith("Traceback")
    assert "injected" in written.splitlines()[-1]
