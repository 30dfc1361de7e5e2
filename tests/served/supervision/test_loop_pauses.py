"""Real processes report the pauses of their event loops."""

import re
import time
import urllib.request
from pathlib import Path

from qmq_node.process.loop_pauses import WARNING_SECONDS
from tests.support.servers.system import System
from tests.support.waiting import eventually

STOPPED_SECONDS = WARNING_SECONDS + 0.1


def longest_pause(url: str) -> float:
    """The longest pause of the last minute, as /metrics has it."""
    with urllib.request.urlopen(url, timeout=20) as answer:
        found = re.search(
            r'^qmq_event_loop_longest_pause_seconds{window="1m"} (\S+)$', answer.read().decode(), re.MULTILINE
        )
    assert found is not None
    return float(found[1])


def test_a_stopped_process_reports_and_logs_a_pause(tmp_path: Path) -> None:
    with System(tmp_path, groups=1, delays=1) as system:
        system.start()
        urls = {
            "meta": f"http://127.0.0.1:{system.http_port}/metrics",
            **{name: f"http://127.0.0.1:{admin}/metrics" for name, (_, admin) in system.ports.items()},
        }
        for process in system.processes:
            with process.paused():
                end = time.monotonic() + STOPPED_SECONDS
                eventually(lambda end=end: time.monotonic() >= end, what="the process was stopped for long enough")
            assert longest_pause(urls[process.name]) >= STOPPED_SECONDS
            # A thread of the process writes the line.
            eventually(lambda p=process: "the event loop paused for " in p.log(), what="the pause was logged")
