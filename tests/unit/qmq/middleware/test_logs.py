"""Log records of messages, and the message in the records of its handler."""

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from qmq.errors import SendFailed
from qmq.middleware.logs import LoggingMiddleware, MessageContextFilter
from tests.support.manual_clock import ManualClock
from tests.unit.qmq.middleware.deliveries import delivery, process, send


class Records(logging.Handler):
    """Collects records, as a handler for structured logs gets them."""

    def __init__(self) -> None:
        super().__init__()
        self.addFilter(MessageContextFilter())
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def fields(self, *names: str) -> list[tuple[Any, ...]]:
        return [tuple(getattr(record, name, None) for name in names) for record in self.records]


@pytest.fixture
def logger() -> logging.Logger:
    return logging.Logger("tests", logging.DEBUG)


@pytest.fixture
def records(logger: logging.Logger) -> Iterator[Records]:
    found = Records()
    logger.addHandler(found)
    yield found
    logger.removeHandler(found)


def test_each_event_is_one_record_with_fields(logger: logging.Logger, records: Records) -> None:
    clock = ManualClock()
    middleware = LoggingMiddleware(logger, clock=clock)
    received = delivery(attempt=3)
    send(middleware, between=lambda: clock.advance(0.5))
    send(middleware, outcome=SendFailed("closed", code="subject.closed"))
    middleware.after_receive(received)
    process(middleware, received, handler=lambda: clock.advance(2))
    process(middleware, received, ValueError("no card"))
    middleware.after_ack(received)
    middleware.after_retry(received, "Declined", False)
    middleware.after_retry(received, "", True)
    assert records.fields("event", "levelname", "group", "attempt", "seconds", "cause", "code", "broker_group") == [
        ("sent", "INFO", "", 0, 0.5, None, None, "broker1"),
        ("send_failed", "WARNING", "", 0, 0.0, None, "subject.closed", None),
        ("received", "INFO", "billing", 3, None, None, None, None),
        ("processed", "INFO", "billing", 3, 2.0, None, None, None),
        ("process_failed", "WARNING", "billing", 3, 0.0, None, None, None),
        ("acked", "INFO", "billing", 3, None, None, None, None),
        ("retried", "WARNING", "billing", 3, None, "Declined", None, None),
        ("dead_letter", "ERROR", "billing", 3, None, "", None, None),
    ]
    assert set(records.fields("subject", "message_id")) == {("orders", "m1")}
    assert [record.getMessage() for record in records.records] == [
        "message m1 was sent to orders",
        "message m1 was not sent to orders: closed",
        "message m1 of orders was received",
        "message m1 of orders was processed",
        "processing message m1 of orders failed: ValueError('no card')",
        "message m1 of orders was acknowledged",
        "message m1 of orders is retried after attempt 3: Declined",
        "message m1 of orders became a dead letter after attempt 3: no cause given",
    ]
    assert [record.exc_info is not None for record in records.records] == [False] * 4 + [True] + [False] * 3


def test_the_level_is_a_choice_and_a_disabled_level_is_not_logged(logger: logging.Logger, records: Records) -> None:
    logger.setLevel(logging.INFO)
    middleware = LoggingMiddleware(logger, level=logging.DEBUG)
    send(middleware)
    process(middleware, delivery())
    middleware.after_ack(delivery())
    assert records.records == []
    process(middleware, delivery(), ValueError("x"))
    assert records.fields("event") == [("process_failed",)]


def test_the_default_logger_has_a_name_of_its_own() -> None:
    assert LoggingMiddleware()._logger is logging.getLogger("qmq.messages")


def test_records_of_a_handler_have_its_message_and_others_have_empty_fields(
    logger: logging.Logger, records: Records
) -> None:
    names = ("msg", "subject", "message_id", "group", "attempt")
    middleware = LoggingMiddleware(logging.Logger("unused"), level=logging.DEBUG)
    logger.info("before")
    process(middleware, delivery(attempt=2), handler=lambda: logger.info("inside"))
    process(
        middleware,
        delivery(),
        handler=lambda: logger.info("own", extra={"subject": "mine"}),
    )
    logger.info("after")
    assert records.fields(*names) == [
        ("before", "", "", "", 0),
        ("inside", "orders", "m1", "billing", 2),
        ("own", "mine", "m1", "billing", 1),
        ("after", "", "", "", 0),
    ]


async def test_records_of_concurrent_handlers_are_not_mixed(logger: logging.Logger, records: Records) -> None:
    middleware = LoggingMiddleware(logging.Logger("unused"), level=logging.DEBUG)
    go = asyncio.Event()

    async def handle(number: int) -> None:
        received = delivery(message_id=str(number))
        middleware.before_process(received)
        await go.wait()
        logger.info(str(number))
        middleware.after_process(received, None)

    tasks = [asyncio.create_task(handle(number)) for number in range(3)]
    await asyncio.sleep(0)
    go.set()
    await asyncio.gather(*tasks)
    assert records.fields("msg", "message_id") == [(str(number), str(number)) for number in range(3)]
