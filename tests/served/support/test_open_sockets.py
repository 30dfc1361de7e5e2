"""The report of a test that fails because of an open socket says where the socket was made."""

import socket
import warnings

from tests.support.runner.open_sockets import origins


def left_open() -> str:
    sock = socket.socket()
    text = repr(sock)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        del sock
    return text


def test_the_origin_of_a_socket_is_found_by_its_file_descriptor() -> None:
    found = origins(f"ResourceWarning: unclosed {left_open()}")
    assert "in left_open" in found
    assert "test_the_origin_of_a_socket_is_found_by_its_file_descriptor (call)" in found


def test_texts_without_sockets_have_no_origins() -> None:
    assert origins("ResourceWarning: unclosed file, <socket.socket [closed] fd=-1>") == ""
