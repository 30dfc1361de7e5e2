"""`make bench-clients`: our client beside other brokers' Python clients; prints a table.

Each measurement is a process of its own, with its server beside it on the same cores, in rounds: every row once in each. A row's
figures are the medians of the rounds, with the lowest and the highest. What the peers need is installed into .venv-bench on first
use. A server that is not installed is named in its rows. Data folders are temporary; TMPDIR chooses the disk.
"""

import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from typing import Any

import psutil  # type: ignore[import-untyped]

from benchmarks import disk
from benchmarks.clients import environment, rows
from benchmarks.clients.job import BEGIN, BODY_BYTES, Job, Timing
from benchmarks.clients.options import parse
from benchmarks.clients.rows import Library, Measured, Measurement, Outcome, Row
from benchmarks.clients.servers import SERVERS, Running, ServerMissing
from tests.support.servers.processes import PROJECT

WARM_UP = 2_000
"""Messages before the timed ones, in each process."""
MEASUREMENT_SECONDS = 180.0
"""A process that takes longer is killed."""
ERROR_CHARS = 2_000
"""Of a failed process's error output, the last ones."""

PROCESSOR_NOTE = (
    "Seconds per million messages, medians; client and server: processor time. Others: cores that all other processes and the"
    " kernel's own threads used meanwhile; near 0 on an idle machine."
)


class MeasurementFailed(Exception):
    """A measured process ended without a timing; the text is its error output."""


def measure(python: str, module: str, case: str, job: Job, pids: Sequence[int]) -> Measured:
    """Run one process.

    Args:
        pids: of the server's processes.

    Raises:
        MeasurementFailed: it ended without a timing.
    """
    # Pages that another server left to the kernel would otherwise be written during this measurement.
    os.sync()
    began = ended = None
    timing = None
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [python, "-m", module, case, json.dumps(asdict(job))], stdout=subprocess.PIPE, stderr=errors, text=True, cwd=PROJECT
        )  # fmt: skip
        limit = threading.Timer(MEASUREMENT_SECONDS, process.kill)
        limit.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.strip() == BEGIN:
                    began = _processor_seconds(pids)
                elif line.startswith("{"):
                    ended = _processor_seconds(pids)
                    timing = Timing(**json.loads(line))
            process.wait()
        finally:
            limit.cancel()
            process.kill()
            process.wait()
        if began is None or ended is None or timing is None or process.returncode != 0:
            errors.seek(0)
            raise MeasurementFailed(f"{module} {case} ended with {process.returncode}:\n{errors.read()[-ERROR_CHARS:]}")
    server, machine = ended[0] - began[0], ended[1] - began[1]
    return Measured(timing, server, max(0.0, machine - server - timing.processor_seconds))


def _processor_seconds(pids: Sequence[int]) -> tuple[float, float]:
    """Processor seconds so far of the processes, and of the whole machine."""
    of_processes = [psutil.Process(pid).cpu_times() for pid in pids]
    machine = psutil.cpu_times()
    return sum(one.user + one.system for one in of_processes), sum(
        machine
    ) - machine.idle - machine.iowait - machine.guest


class Rounds:
    """The measurements of the chosen rows, and their outcomes by library and case."""

    def __init__(self, chosen: list[tuple[Library, list[Row]]], messages: int | None) -> None:
        self._chosen = chosen
        self._messages = messages
        self.outcomes: dict[str, dict[str, Outcome]] = {library.name: {} for library, _ in chosen}
        self.missing: dict[str, str] = {}
        """By server: why it is not there."""
        self._running: dict[str, Running] = {}

    @contextlib.contextmanager
    def servers(self) -> Iterator[list[Running]]:
        """Start the servers of the chosen rows; they end behind the block."""
        with contextlib.ExitStack() as stack:
            for name in dict.fromkeys(library.server for library, _ in self._chosen):
                try:
                    self._running[name] = stack.enter_context(SERVERS[name]())
                except ServerMissing as error:
                    self.missing[name] = str(error)
            yield list(self._running.values())

    def run(self, number: int) -> None:
        """Run one round."""
        for library, chosen in self._chosen:
            server = self._running.get(library.server)
            if server is None:
                continue
            for row in chosen:
                if row.produce is not None:
                    messages = rows.messages_of(row.produce, self._messages)
                    self._measure(number, library, row.produce.case, _job(server, messages), server)
            self._receive(number, library, [row.consume for row in chosen if row.consume is not None], server)

    def _receive(self, number: int, library: Library, measurements: list[Measurement], server: Running) -> None:
        """Run measurements of consumers, each with a group of its own, after filling one topic for all."""
        if not measurements:
            return
        counts = [rows.messages_of(measurement, self._messages) for measurement in measurements]
        filled = _job(server, max(counts))
        module, case = library.fill
        try:
            measure(_python(library), module, case, filled, ())
        except MeasurementFailed as error:
            for measurement in measurements:
                self._fail(number, library, measurement.case, error)
            return
        for measurement, messages in zip(measurements, counts, strict=True):
            job = replace(filled, group=_new_name(), messages=messages)
            self._measure(number, library, measurement.case, job, server)

    def _outcome(self, library: Library, case: str) -> Outcome:
        return self.outcomes[library.name].setdefault(case, Outcome())

    def _fail(self, number: int, library: Library, case: str, error: MeasurementFailed) -> None:
        self._outcome(library, case).is_failed = True
        print(f"round {number}: {library.name} {case} failed: {error}", file=sys.stderr)

    def _measure(self, number: int, library: Library, case: str, job: Job, server: Running) -> None:
        try:
            measured = measure(_python(library), library.module, case, job, server.pids)
        except MeasurementFailed as error:
            self._fail(number, library, case, error)
            return
        outcome = self._outcome(library, case)
        outcome.measured.append(measured)
        seconds = measured.timing.seconds
        print(
            f"round {number}: {library.name} {case}: {measured.rate:,.0f}/s in {seconds:.1f} s;"
            f" other processes used {measured.other_seconds / seconds:.2f} cores",
            file=sys.stderr,
        )


def _python(library: Library) -> str:
    return environment.peers_python() if library.is_peer else sys.executable


def _job(server: Running, messages: int) -> Job:
    return Job(server.address, _new_name(), "", messages, WARM_UP)


def _new_name() -> str:
    return f"clients-{uuid.uuid4().hex[:12]}"


def library_version(library: Library) -> str:
    """Return the version of a library."""
    if not library.is_peer:
        return version("pyqmq")
    return environment.peer_versions()[library.package or library.name]


def head(servers: list[Running], missing: dict[str, str], rates: disk.DiskRates, rounds: int) -> list[str]:
    """Return what stands above the table: the machine, the disk, the servers, and how it was measured."""
    return [
        f"Machine: {os.cpu_count()} cores, {psutil.virtual_memory().total >> 30} GB, {platform.platform()},"
        f" Python {platform.python_version()}, load average at the start {os.getloadavg()[0]:.1f}",
        f"Disk: {rates.sequential_mb_per_s:.0f} MB/s sequential; write + fdatasync of 4 KB / 64 KB / 1 MB:"
        f" {rates.synced_4k_ms:.2f} / {rates.synced_64k_ms:.2f} / {rates.synced_1m_ms:.2f} ms",
        *(f"Server: {server.text}" for server in servers),
        *(f"Server not present: {name}: {text}" for name, text in missing.items()),
        f"{BODY_BYTES}-byte bodies, one process per measurement beside its server, {rounds} rounds: medians (lowest to highest)."
        " Clients of Kafka have acks=all and otherwise their defaults, as linger (librdkafka 5 ms, aiokafka 0), but for what a row"
        " names and librdkafka's fetch.queue.backoff.ms, 10 instead of 1,000. redis-py is without hiredis.",
        "",
    ]


def tables(rounds: Rounds, chosen: list[tuple[Library, list[Row]]]) -> list[str]:
    """Return the tables as lines."""
    lines = ["| library | produce msgs/s | consume msgs/s | durable on acknowledgement |", "|---|---|---|---|"]
    processor = ["| | elapsed | client | server | others, cores |", "|---|---|---|---|---|"]
    latencies = []
    for library, its_rows in chosen:
        outcomes = rounds.outcomes[library.name]
        missing = rounds.missing.get(library.server, "")
        for row in its_rows:
            lines.append(rows.table_line(library, library_version(library), row, outcomes, missing))
        for case, outcome in outcomes.items():
            if outcome.is_failed:
                continue
            processor.append(rows.processor_line(library, case, outcome))
            if outcome.has_latency:
                latencies.append(
                    f"{library.name}, one message at a time, send to receipt: {rows.latency_text(outcome)}"
                )
    return [*lines, "", *latencies, "", PROCESSOR_NOTE, "", *processor]


def as_json(rounds: Rounds, lines: list[str]) -> dict[str, Any]:
    """Return everything that was measured."""
    return {
        "head": lines,
        "missing": rounds.missing,
        "outcomes": {
            library: {case: asdict(outcome) for case, outcome in outcomes.items()}
            for library, outcomes in rounds.outcomes.items()
        },
    }


def main() -> None:
    """Measure and print."""
    options = parse(sys.argv[1:], __doc__)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if any(library.is_peer for library, _ in options.chosen):
        environment.peers_python()
    rates = disk.measure(tempfile.gettempdir())
    rounds = Rounds(options.chosen, options.messages)
    lines: list[str] = []
    try:
        with rounds.servers() as servers:
            lines = head(servers, rounds.missing, rates, options.rounds)
            print("\n".join(lines), flush=True)
            for number in range(1, options.rounds + 1):
                rounds.run(number)
    finally:  # also what was measured before Ctrl-C
        print("\n".join(tables(rounds, options.chosen)))
        if options.json is not None:
            options.json.write_text(json.dumps(as_json(rounds, lines), indent=1) + "\n")
    if any(outcome.is_failed for outcomes in rounds.outcomes.values() for outcome in outcomes.values()):
        sys.exit(1)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
