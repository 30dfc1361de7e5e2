"""Limits on log lines that any client can cause: one line for each bad request would let it fill the log."""

import logging

from django.http import HttpRequest

from console.http.rate_limits import network_of
from qmq.clock import SYSTEM_CLOCK, Clock
from qmq.net.log_limiter import LogLimiter

SERVER_LOGGER = "uvicorn.error"
"""Where uvicorn logs requests that are no HTTP."""
REFUSAL_LOGGER = "django.request"
"""Where Django logs each answer of 400 and above: as a warning below 500."""
SUSPICION_LOGGERS = "django.security."
"""Where Django logs requests that it refuses for what they contain: as errors, with a traceback."""


class ClientFaults(logging.Filter):
    """Admits the first line about bad requests of a network and later ones with a back-off, as a warning without a traceback.

    For handlers as well as for loggers. Lines about internal errors pass unchanged.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__()
        self._clock = clock
        self._limiter = LogLimiter()

    def filter(self, record: logging.LogRecord) -> bool:
        key = _fault(record)
        if key is None:
            return True
        suppressed = self._limiter.admit(key, self._clock.monotonic())
        if suppressed is None:
            return False
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        record.exc_info = record.exc_text = None
        if suppressed:
            record.msg = f"{record.msg} ({suppressed} more since the last line)"
        return True


def _fault(record: logging.LogRecord) -> object:
    """What kind of a client's fault a line is about, and of which network; None: no fault of a client."""
    if record.name.startswith(SUSPICION_LOGGERS):
        kind: object = record.name
    elif record.levelno == logging.WARNING and record.name == REFUSAL_LOGGER:
        kind = getattr(record, "status_code", 0)
    elif record.levelno == logging.WARNING and record.name == SERVER_LOGGER:
        kind = record.msg
    else:
        return None
    request = getattr(record, "request", None)
    address = request.META.get("REMOTE_ADDR", "") if isinstance(request, HttpRequest) else ""
    return kind, network_of(address) if address else ""
