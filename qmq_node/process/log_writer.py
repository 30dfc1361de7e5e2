"""class LogWriter: writes log lines in a thread. When no process reads the pipe, only that thread waits."""

import logging
import os
import threading
from collections import deque

from qmq.clock import SYSTEM_CLOCK

LINES_MAX = 10_000
"""Most lines that wait to be written; further ones are dropped and counted."""
FLUSH_SECONDS = 5.0
"""How long the end of the process waits for lines that are not written yet."""
_WRITE_LINES = 100


class LogWriter(logging.Handler):
    """Formats records in the caller's thread and writes them in its own.

    When LINES_MAX lines wait, a further record is dropped; for a critical one, the oldest line is. As soon as lines can be
    written again, one reports how many were dropped.

    Args:
        fd: where to write, such as standard error's file descriptor; it stays open.
    """

    def __init__(self, fd: int) -> None:
        super().__init__()
        self._fd = fd
        self._lines: deque[str] = deque()
        self._changed = threading.Condition()
        self._writing = False
        self._unreported = 0
        self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception as error:  # noqa: BLE001 - the line says what is wrong with it
            line = f"a log record of {record.name}, line {record.lineno}, can't be formatted: {error!r}"
        with self._changed:
            if len(self._lines) >= LINES_MAX:
                self._unreported += 1
                if record.levelno < logging.CRITICAL:
                    return
                self._lines.popleft()
            self._lines.append(line)
            self._changed.notify_all()

    def flush(self, seconds: float = FLUSH_SECONDS) -> None:
        """Wait until all lines are written, at most `seconds`."""
        end = SYSTEM_CLOCK.monotonic() + seconds
        with self._changed:
            while (self._lines or self._writing) and (left := end - SYSTEM_CLOCK.monotonic()) > 0:
                self._changed.wait(left)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._writing = False
                self._changed.notify_all()
                while not self._lines:
                    self._changed.wait()
                lines = [self._lines.popleft() for _ in range(min(len(self._lines), _WRITE_LINES))]
                dropped, self._unreported = self._unreported, 0
                self._writing = True
            if dropped:
                lines.insert(0, f"{dropped} log lines were dropped: standard error was not read")
            self._write("".join(f"{line}\n" for line in lines).encode(errors="backslashreplace"))

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._fd, view) :]
            except OSError:
                # The reader has ended, or its disk is full: there is no way to report it.
                return
