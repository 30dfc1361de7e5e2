"""Connections that only count."""

from collections.abc import Callable

from qmq.protocol.frames import Frame


class FakeConnection:
    """Takes answers; nothing is sent."""

    is_closed = False
    answer_room = 1 << 20
    queued_bytes = 0

    def __init__(self, number: int) -> None:
        self.peer = f"10.0.0.1:{number}"
        self.codes: list[int] = []
        self._on_close: list[Callable[[], object]] = []

    def close(self) -> None:
        """End the connection."""
        self.is_closed = True
        for callback in self._on_close:
            callback()

    def reply(self, frame: Frame, code: int, *parts: bytes | memoryview) -> None:
        self.codes.append(code)

    def holds(self, frame: Frame, answer_bytes: int) -> None:
        pass

    def has_unread(self, mark: int) -> bool:
        return False

    def on_close(self, callback: Callable[[], object]) -> None:
        self._on_close.append(callback)
