"""Fixtures of the client's tests in virtual time."""

import asyncio

import pytest

from qmq.net.caller import Caller
from qmq.protocol.codes import Command
from qmq.protocol.frames import Frame


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many messages each SEND request of this process has."""
    counts: list[int] = []
    call_soon = Caller.call_soon

    def counted(caller: Caller, code: int, *body: bytes, version: int = 9) -> "asyncio.Future[Frame]":
        if code == Command.SEND_MESSAGE:
            counts.append(len(body))
        return call_soon(caller, code, *body, version=version)

    monkeypatch.setattr(Caller, "call_soon", counted)
    return counts
