"""`python -m benchmarks.testing`: how long `qmq_server` of the pytest plugin takes to start and to close; a table.

Each row is measured in fresh processes. The first start of a process is a test session's, the following ones are those of its other
tests. The import is measured apart: a session pays it once, and only when a test uses the fixture.
"""

import argparse
import json
import subprocess
import sys
from statistics import median

from qmq.clock import SystemClock
from qmq_testing.settings import ServerSettings

FOLLOWING = 10
"""Starts of one process after its first."""


def measure(settings: ServerSettings) -> dict[str, list[float]]:
    """Milliseconds of this process: the import, the first start and close, and those of FOLLOWING further servers."""
    clock = SystemClock()
    took: dict[str, list[float]] = {"import": [], "first start": [], "start": [], "close": []}
    began = clock.monotonic()
    from qmq_testing.loop_thread import LoopThread
    from qmq_testing.server import Server

    took["import"].append((clock.monotonic() - began) * 1000)
    with LoopThread("qmq-test-server") as thread:
        for number in range(1 + FOLLOWING):
            server = Server(settings, thread=thread)
            began = clock.monotonic()
            server.start()
            ready = clock.monotonic()
            server.close()
            took["start" if number else "first start"].append((ready - began) * 1000)
            took["close"].append((clock.monotonic() - ready) * 1000)
    return took


def main() -> None:
    """Print p50 and maximum of each step, without and with syncs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=10, help="fresh processes for each row of the table")
    parser.add_argument("--one", choices=("syncs", "no-syncs"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(ServerSettings(syncs=options.one == "syncs"))))
        return
    print(f"{'':<12} {'step':<12} {'p50':>8} {'maximum':>8}")
    for kind in ("no-syncs", "syncs"):
        together: dict[str, list[float]] = {}
        for _ in range(options.processes):
            command = [sys.executable, "-m", "benchmarks.testing", "--one", kind]
            printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            for step, times in json.loads(printed).items():
                together.setdefault(step, []).extend(times)
        for step, times in together.items():
            print(f"{kind:<12} {step:<12} {median(times):>5.0f} ms {max(times):>5.0f} ms")


if __name__ == "__main__":
    main()
