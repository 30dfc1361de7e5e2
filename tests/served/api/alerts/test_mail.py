"""A delivery by mail as a whole ends in time, whatever the server does. The server moves the clock: nothing waits."""

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from console.alerts.http import SEND_SECONDS, NotDelivered
from console.alerts.models import AlertChannel
from console.alerts.notifiers import EmailNotifier
from tests.served.api.alerts.receiver import documented_body
from tests.support.manual_clock import ManualClock

ADDRESSES = [f"a{number}@example.com" for number in range(20)]


class MailServer:
    """Takes one mail after the other; `on_reply` is called before each piece of an answer is sent."""

    def __init__(self) -> None:
        self.commands: list[str] = []
        self.mails: list[str] = []
        self.on_reply: Callable[[], None] = lambda: None
        self.piece_bytes = 1_000
        self.refuses_quit = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        # A connection without a command ends the thread.
        with socket.create_connection(("127.0.0.1", self.port)):
            self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                try:
                    self._talk(connection)
                except OSError:
                    continue

    def _talk(self, connection: socket.socket) -> None:
        self._reply(connection, "220 ready")
        with connection.makefile("r", encoding="latin-1", newline="\r\n") as lines:
            for line in lines:
                command = line.strip()
                self.commands.append(command.partition(" ")[0].upper())
                if command.upper() == "DATA":
                    self._reply(connection, "354 go on")
                    self.mails.append("".join(iter(lambda: next(lines), ".\r\n")))
                elif command.upper() == "QUIT" and self.refuses_quit:
                    return
                self._reply(connection, "250 done")

    def _reply(self, connection: socket.socket, text: str) -> None:
        answer = f"{text}\r\n".encode()
        for begin in range(0, len(answer), self.piece_bytes):
            self.on_reply()
            connection.sendall(answer[begin : begin + self.piece_bytes])


@pytest.fixture
def server(settings: Any) -> Iterator[MailServer]:
    found = MailServer()
    settings.EMAIL_BACKEND = "console.alerts.mail.DeadlineBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", found.port
    settings.DEFAULT_FROM_EMAIL = "PyQMQ <pyqmq@example.com>"
    try:
        yield found
    finally:
        found.close()


def send(clock: ManualClock) -> str:
    return EmailNotifier(clock=clock).send(AlertChannel(kind="email", addresses=ADDRESSES), "7", [documented_body()])


def test_a_mail_is_delivered_in_one_connection(server: MailServer) -> None:
    assert send(ManualClock()) == "accepted by the mail server for 20 addresses"
    assert server.commands == ["EHLO", "MAIL", *["RCPT"] * 20, "DATA", "QUIT"]
    assert "Message-ID: <qmq-7@example.com>" in server.mails[0], "each attempt has the same one"
    assert "X-QMQ-Delivery: 7" in server.mails[0]


def test_a_server_that_is_slow_with_each_address_is_left_after_five_seconds(server: MailServer) -> None:
    clock = ManualClock()
    server.on_reply = lambda: clock.advance(1.0)
    with pytest.raises(NotDelivered, match="timed out after 5 s"):
        send(clock)
    assert server.commands.count("RCPT") < SEND_SECONDS
    assert "DATA" not in server.commands


def test_a_server_that_answers_byte_by_byte_is_left_too(server: MailServer) -> None:
    clock = ManualClock()
    server.piece_bytes = 1
    pieces = []

    def on_reply() -> None:
        pieces.append(1)
        clock.advance(1.0)

    server.on_reply = on_reply
    with pytest.raises(NotDelivered, match="timed out after 5 s"):
        send(clock)
    assert server.commands == []


def test_a_mail_that_was_accepted_is_delivered_whatever_becomes_of_quit(server: MailServer) -> None:
    server.refuses_quit = True
    assert send(ManualClock()).startswith("accepted by the mail server")
    assert len(server.mails) == 1


class Late(ManualClock):
    """At each look but the first nearly all of the time is gone: so nothing is waited for in fact."""

    looks = 0

    def monotonic(self) -> float:
        self.looks += 1
        return super().monotonic() + (SEND_SECONDS - 0.01 if self.looks > 1 else 0.0)


def test_a_name_that_is_not_resolved_in_time_is_not_waited_for(server: MailServer) -> None:
    may_end = threading.Event()

    def resolver(host: str, port: int) -> list[str]:
        may_end.wait()
        return []

    notifier = EmailNotifier(resolver=resolver, clock=Late())
    try:
        with pytest.raises(NotDelivered, match="DNS lookup timed out"):
            notifier.send(AlertChannel(kind="email", addresses=ADDRESSES), "7", [documented_body()])
    finally:
        may_end.set()
    assert server.commands == []
