"""The mail back end: Django's, with one deadline over connection, TLS, sign-in and every command of a delivery.

smtplib's limit is for each operation. A server that answers slowly, or sends its answers byte by byte, takes that time once per
command and address.
"""

import logging
import smtplib
import socket
from typing import Any

from django.core.mail.backends.smtp import EmailBackend

from console.alerts.connections import Answers, Deadline, connect
from console.alerts.http import SEND_SECONDS
from console.host_addresses import Resolver, resolve, system_resolver
from qmq.clock import SYSTEM_CLOCK, Clock

logger = logging.getLogger("qmq.alerts")


class DeadlineSmtp(smtplib.SMTP):
    """An SMTP connection whose every operation has the time that is left."""

    def __init__(self, host: str, port: int, deadline: Deadline, resolver: Resolver) -> None:
        self._deadline = deadline
        self._resolver = resolver
        # The host's own name without asking DNS, which knows no deadline.
        super().__init__(host, port, local_hostname=socket.gethostname(), timeout=deadline.left())

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        return connect(resolve(self._resolver, host, port, self._deadline.left()), port, self._deadline)

    def send(self, s: Any) -> None:
        if self.sock is not None:
            self.sock.settimeout(self._deadline.left())
        super().send(s)

    def getreply(self) -> tuple[int, bytes]:
        if self.file is None and self.sock is not None:
            self.file = Answers(self.sock, self._deadline).makefile()
        return super().getreply()

    def starttls(self, *, context: Any = None) -> tuple[int, bytes]:  # type: ignore[override]
        if self.sock is not None:
            self.sock.settimeout(self._deadline.left())
        return super().starttls(context=context)


class DeadlineBackend(EmailBackend):
    """`timeout` is for the delivery as a whole, from the look-up of the server's name on."""

    def __init__(self, *, clock: Clock = SYSTEM_CLOCK, resolver: Resolver = system_resolver, **values: Any) -> None:
        super().__init__(**{"timeout": SEND_SECONDS, **values})
        self._clock = clock
        self._resolver = resolver

    def open(self) -> bool:
        """Connect and sign in; False when that was done before."""
        if self.connection is not None:
            return False
        deadline = Deadline(self.timeout or SEND_SECONDS, self._clock)
        connection = DeadlineSmtp(self.host, self.port, deadline, self._resolver)
        try:
            if self.use_tls:
                connection.starttls(context=self.ssl_context)
            if self.username and self.password:
                connection.login(self.username, self.password)
        except BaseException:
            connection.close()
            raise
        self.connection = connection
        return True

    def close(self) -> None:
        """Quit. The server has answered for the message by then: a failure here changes nothing about that."""
        connection, self.connection = self.connection, None
        if connection is None:
            return
        try:
            connection.quit()
        except OSError as error:  # smtplib's errors are OSErrors
            logger.debug("the mail server did not answer QUIT: %s", error)
            connection.close()
