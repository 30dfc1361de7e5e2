"""Log records of messages with fields for structured logs, and the message of a handler in the handler's own records."""

import logging
from typing import Any, cast

from qmq.client.delivery import Delivery
from qmq.client.middleware import Middleware, OutgoingMessage, ProcessState
from qmq.clock import SYSTEM_CLOCK, Clock
from qmq.errors import SendFailed
from qmq.receipt import Receipt
from qmq.words import printable

_processing: ProcessState[float] = ProcessState("qmq_logs_begin")
"""Monotonic seconds at which the processing began. Shared, so that one filter serves all clients of a process."""


class LoggingMiddleware(Middleware):
    """Logs what happens to each message. Failures and retries have the level WARNING, dead letters ERROR.

    Each record has these attributes, as if passed as `extra`: `event` (sent, send_failed, received, processed, process_failed,
    acked, retried, dead_letter), `subject`, `message_id` and, where they apply, `group`, `attempt`, `seconds`, `broker_group`,
    `cause`, `code`. Control and bidirectional characters in subjects and message IDs are written as `\\x1b` or `\\u202e`.

    Args:
        logger: None: the logger "qmq.messages".
        level: level of the other records.
    """

    def __init__(
        self, logger: logging.Logger | None = None, *, level: int = logging.INFO, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._logger = logging.getLogger("qmq.messages") if logger is None else logger
        self._level = level
        self._clock = clock

    def before_send(self, message: OutgoingMessage) -> None:
        message.state[self] = self._clock.monotonic()

    def after_send(self, message: OutgoingMessage, outcome: Receipt | SendFailed) -> None:
        begin = cast("float | None", message.state.get(self))
        fields: dict[str, Any] = {} if begin is None else {"seconds": self._clock.monotonic() - begin}
        if isinstance(outcome, SendFailed):
            text = "message %s was not sent to %s: %s"
            self._log(logging.WARNING, "send_failed", message, text, outcome, code=outcome.code, **fields)
            return
        text = "message %s was sent to %s"
        self._log(self._level, "sent", message, text, broker_group=outcome.broker_group, **fields)

    def after_receive(self, delivery: Delivery) -> None:
        self._log(self._level, "received", delivery, "message %s of %s was received")

    def before_process(self, delivery: Delivery) -> None:
        _processing.begin(delivery, self._clock.monotonic())

    def after_process(self, delivery: Delivery, error: BaseException | None) -> None:
        begin = _processing.end(delivery)
        fields: dict[str, Any] = {} if begin is None else {"seconds": self._clock.monotonic() - begin}
        if error is None:
            self._log(self._level, "processed", delivery, "message %s of %s was processed", **fields)
            return
        text = "processing message %s of %s failed: %r"
        self._log(logging.WARNING, "process_failed", delivery, text, error, error=error, **fields)

    def after_ack(self, delivery: Delivery) -> None:
        self._log(self._level, "acked", delivery, "message %s of %s was acknowledged")

    def after_retry(self, delivery: Delivery, cause: str, is_dead_letter: bool) -> None:
        level, event, what = logging.WARNING, "retried", "is retried"
        if is_dead_letter:
            level, event, what = logging.ERROR, "dead_letter", "became a dead letter"
        text = f"message %s of %s {what} after attempt %d: %s"
        self._log(level, event, delivery, text, delivery.attempt, cause or "no cause given", cause=cause)

    def _log(
        self,
        level: int,
        event: str,
        about: OutgoingMessage | Delivery,
        text: str,
        *arguments: object,
        error: BaseException | None = None,
        **fields: Any,
    ) -> None:
        if self._logger.isEnabledFor(level):
            extra = {"event": event, **_fields_of(about), **fields}
            self._logger.log(
                level, text, extra["message_id"], extra["subject"], *arguments, extra=extra, exc_info=error
            )


class MessageContextFilter(logging.Filter):
    """Adds `subject`, `message_id`, `group` and `attempt` of the message that is being processed to every log record.

    Add it to a log handler (`handler.addFilter(MessageContextFilter())`): a filter of a logger does not see the records of other
    loggers. It needs LoggingMiddleware in the consumer, and lets every record pass. Records from outside of handlers have "" and
    attempt 0; a field that a record already has is not changed.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        current = _processing.current
        fields = _OUTSIDE if current is None else _fields_of(current[0])
        attributes = record.__dict__
        for name, value in fields.items():
            attributes.setdefault(name, value)
        return True


_OUTSIDE: dict[str, Any] = {"subject": "", "message_id": "", "group": "", "attempt": 0}


def _fields_of(about: OutgoingMessage | Delivery) -> dict[str, Any]:
    fields: dict[str, Any] = {"subject": printable(about.subject), "message_id": printable(about.message_id)}
    return fields | ({"group": about.group, "attempt": about.attempt} if isinstance(about, Delivery) else {})
