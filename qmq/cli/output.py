"""What commands print, for every terminal and every encoding: texts of others have no effect on a terminal and forge no lines."""

import array
import json
import os
import select
import stat
import sys
from collections.abc import Iterable
from typing import TextIO

from qmq.words import UNPRINTABLE, printable

try:
    import fcntl
    import termios
except ImportError:  # Windows
    HAS_FIONREAD = False
else:
    HAS_FIONREAD = True


def say(text: str) -> None:
    """Print one line."""
    _write(sys.stdout, printable(text))


def warn(text: str) -> None:
    """Print one line on standard error, after the name of the command."""
    _write(sys.stderr, f"qmq: {printable(text)}")


def say_json(value: object, *, indent: int | None = None) -> None:
    """Print a value as JSON: on one line, or with an indent on several."""
    _write(sys.stdout, json_text(value, sys.stdout.encoding, indent=indent))


def json_text(value: object, encoding: str | None, *, indent: int | None = None) -> str:
    """A value as JSON text that an encoding can express. Characters that act on terminals are escaped; it is the same JSON."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    # Line ends are between the values only.
    text = "\n".join(UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", line) for line in text.split("\n"))
    try:
        text.encode(encoding or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, indent=indent)
    return text


def table(heading: list[str], rows: Iterable[list[object]]) -> None:
    """Print rows in columns under a heading."""
    texts = [heading, *(["-" if cell is None else printable(str(cell)) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for row in texts:
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _write(stream: TextIO, line: str) -> None:
    encoding = stream.encoding or "utf-8"
    stream.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")


def discard_rest() -> None:
    """The reader of the output has closed it, as `| head` does: what is still buffered goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


class Lines:
    """JSON lines on standard output, and how much of them its reader has taken.

    What is in a pipe when its reader ends is lost. So a line counts as taken when it has left the pipe; with any other output, when
    it is written.
    """

    def __init__(self) -> None:
        self._stream = sys.stdout
        self._pipe = _pipe_of(self._stream)
        self._encoding = self._stream.encoding or "utf-8"
        self.written = 0
        """Bytes of all lines so far."""

    @property
    def pipe(self) -> int | None:
        """The file descriptor of the pipe; None: it is none."""
        return self._pipe

    def parts(self, value: object) -> list[bytes]:
        """A line in parts that can each be written to a pipe that has room."""
        data = f"{json_text(value, self._encoding)}\n".encode(self._encoding)
        size = len(data) if self._pipe is None else select.PIPE_BUF
        return [data[begin : begin + size] for begin in range(0, len(data), size)]

    def write(self, part: bytes) -> None:
        """Write a part and flush it. Raises BrokenPipeError when the reader has closed the pipe."""
        if self._pipe is None:
            self._stream.write(part.decode(self._encoding))
            self._stream.flush()
        else:
            os.write(self._pipe, part)
        self.written += len(part)

    @property
    def taken(self) -> int:
        """How many bytes the reader has taken."""
        if self._pipe is None:
            return self.written
        unread = array.array("i", [0])
        fcntl.ioctl(self._pipe, termios.FIONREAD, unread)
        return self.written - unread[0]

    def has_room(self) -> bool:
        """Whether a part can be written without waiting, or the reader has closed the pipe."""
        return self._pipe is None or self._state(self._pipe) != 0

    def is_closed(self) -> bool:
        """Whether the reader has closed the pipe."""
        return self._pipe is not None and self._state(self._pipe) & select.POLLERR != 0

    def _state(self, pipe: int) -> int:
        poll = select.poll()
        poll.register(pipe, select.POLLOUT)
        return sum(event for _, event in poll.poll(0))


def _pipe_of(stream: TextIO) -> int | None:
    try:
        fd = stream.fileno()
        return fd if HAS_FIONREAD and stat.S_ISFIFO(os.fstat(fd).st_mode) else None
    except (OSError, ValueError):  # not a file, as in tests
        return None
