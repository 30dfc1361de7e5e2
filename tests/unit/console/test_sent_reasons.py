"""The sentences that the console translates (useSentReason.ts) are those that nodes and the API send."""

import errno
import json
import os
import re
import socket

import pytest

from qmq.errors import Unreachable
from qmq.net.discovery import failure_reason
from tests.support.servers.processes import PROJECT

SENT: dict[str, str] = json.loads((PROJECT / "frontend/src/i18n/en/common.json").read_text())["sent"]
OF_THE_SYSTEM = {
    "connection_reset": OSError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)),
    "no_route": OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH)),
    "network_unreachable": OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH)),
    "unknown_host": socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
}


@pytest.mark.parametrize("key", OF_THE_SYSTEM)
def test_an_error_of_the_system(key: str) -> None:
    assert failure_reason(OF_THE_SYSTEM[key], 1.0) == SENT[key]


def test_a_connection_that_can_not_be_opened() -> None:
    assert failure_reason(ConnectionRefusedError(errno.ECONNREFUSED, "a text"), 1.0) == SENT["connection_refused"]
    assert failure_reason(TimeoutError(), 0.75) == SENT["no_response"].replace("{{time}}", "0.75 s")
    sentence = SENT["cant_be_reached"].replace("{{address}}", "host:1").replace("{{why}}", "it is off")
    assert str(Unreachable("host:1", "it is off")) == sentence


def test_the_others_are_texts_of_the_console() -> None:
    sources = [path.read_text() for folder in ("console", "qmq") for path in (PROJECT / folder).rglob("*.py")]
    for key in SENT.keys() - OF_THE_SYSTEM.keys():
        for part in re.split(r"\{\{\w+\}\}", SENT[key]):
            words = part.strip(" :").removesuffix(" s")
            assert not words or any(words in text for text in sources), f"{key}: {words!r} is in no source file"
