"""Why an address can't be reached has a Chinese sentence, whatever the operating system says."""

import errno
import os
import socket

import pytest

from qmq.errors import Unreachable
from qmq.net.discovery import failure_reason
from tests.support.console.sentences import has_chinese

OF_THE_DISK = (errno.EIO, errno.ENOSPC, errno.EROFS, errno.EACCES, errno.ENOENT, errno.EDQUOT, errno.EMFILE)
OF_THE_NETWORK = (errno.ECONNREFUSED, errno.ECONNRESET, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EPIPE)


@pytest.mark.parametrize(
    "error",
    [
        *(OSError(number, os.strerror(number)) for number in OF_THE_NETWORK),
        socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
        TimeoutError(),
    ],
    ids=repr,
)
def test_an_error_of_the_network(error: OSError) -> None:
    reason = failure_reason(error, 0.75)
    assert has_chinese(reason), reason
    assert has_chinese(str(Unreachable("host:1", reason)))


@pytest.mark.parametrize("number", OF_THE_DISK)
def test_an_error_of_a_disk(number: int) -> None:
    error = OSError(number, os.strerror(number), "/data/log")
    assert has_chinese(os.strerror(number))
    assert has_chinese(str(error))
