"""Why a connection failed, in words."""

import errno
import socket

import pytest

from qmq.net.discovery import failure_reason


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 1)"), "connection refused"),
        (ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"), "connection reset by peer"),
        (OSError(errno.EHOSTUNREACH, "Connect call failed ('10.0.0.9', 1)"), "no route to host"),
        (TimeoutError(), "no response within 0.75 s"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "name or service not known"),
        (OSError("Multiple exceptions: ..."), "Multiple exceptions: ..."),
        (UnicodeError("label too long"), "label too long"),
    ],
)
def test_the_reason_names_neither_a_number_nor_the_address(error: Exception, reason: str) -> None:
    assert failure_reason(error, 0.749986) == reason


def test_the_most_frequent_ones_have_a_code_for_other_languages() -> None:
    errors = (
        ConnectionRefusedError(errno.ECONNREFUSED, "refused"),
        TimeoutError(),
        OSError(errno.EHOSTUNREACH, "away"),
    )
    assert [failure_reason(error, 5.0).code for error in errors] == ["connection_refused", "no_response", ""]
    assert failure_reason(TimeoutError(), 5.0).values == {"seconds": "5"}
