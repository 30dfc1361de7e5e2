"""Sending from Django, with a producer that only remembers."""

import os
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction

from qmq.errors import IllegalName, LocalProtocolError, SendFailed
from qmq.integrations import django as qmq_django
from qmq.integrations.django import send_on_commit, sending


class FakeProducer:
    """Remembers what it was asked to send."""

    def __init__(self, url: str, *, app: str) -> None:
        self.arguments = (url, app)
        self.sent: list[tuple[str, Any, dict[str, Any]]] = []
        self.is_started = self.is_closed = False
        self.error: Exception | None = None

    def start(self) -> None:
        self.is_started = True

    def send(self, subject: str, body: Any, **options: Any) -> None:
        if self.error is not None:
            raise self.error
        self.sent.append((subject, body, options))

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[FakeProducer]:
    settings.QMQ_URL, settings.QMQ_APP = "meta:8080", "shop"
    monkeypatch.setattr(sending, "Producer", FakeProducer)
    yield qmq_django.producer()  # type: ignore[misc]
    sending.close_producer()


def subjects(producer: FakeProducer) -> list[str]:
    return [subject for subject, _, _ in producer.sent]


@pytest.mark.django_db(transaction=True)
def test_a_message_is_sent_after_the_outermost_transaction_has_committed(producer: FakeProducer) -> None:
    with transaction.atomic():
        with transaction.atomic():
            send_on_commit("orders", {"order": 1}, tags=["paid"], message_id="m1")
        assert not producer.sent
    assert producer.sent == [("orders", {"order": 1}, {"tags": ("paid",), "message_id": "m1"})]


@pytest.mark.django_db(transaction=True)
def test_a_message_of_a_transaction_that_is_rolled_back_is_not_sent(producer: FakeProducer) -> None:
    with transaction.atomic():
        send_on_commit("orders", "kept")
        with pytest.raises(ValueError), transaction.atomic():
            send_on_commit("orders", "rolled back")
            raise ValueError
    assert [body for _, body, _ in producer.sent] == ["kept"]


@pytest.mark.django_db(transaction=True)
def test_without_a_transaction_it_is_sent_now(producer: FakeProducer) -> None:
    send_on_commit("orders", "text", delay=timedelta(hours=1))
    assert producer.sent == [("orders", "text", {"delay": timedelta(hours=1), "tags": (), "message_id": None})]


@pytest.mark.django_db(transaction=True)
def test_the_body_is_copied(producer: FakeProducer) -> None:
    body = {"order": 1}
    with transaction.atomic():
        send_on_commit("orders", body)
        body["order"] = 2
    assert producer.sent[0][1] == {"order": 1}


@pytest.mark.django_db(transaction=True)
def test_wrong_arguments_fail_inside_the_transaction(producer: FakeProducer) -> None:
    with transaction.atomic():
        with pytest.raises(IllegalName):
            send_on_commit("orders/paid", "text")
        with pytest.raises(LocalProtocolError, match="use one of them"):
            send_on_commit("orders", "text", delay=timedelta(1), due=sending.datetime.now())
    assert not producer.sent


@pytest.mark.django_db(transaction=True)
def test_an_error_of_the_send_reaches_the_committing_block_unless_it_is_robust(producer: FakeProducer) -> None:
    producer.error = SendFailed("no broker")
    with pytest.raises(SendFailed), transaction.atomic():
        send_on_commit("orders", "text")
    after: list[str] = []
    with transaction.atomic():
        send_on_commit("orders", "text", robust=True)
        transaction.on_commit(lambda: after.append("ran"))
    assert after == ["ran"]


def test_one_producer_serves_the_process_until_it_is_closed(producer: FakeProducer) -> None:
    assert qmq_django.producer() is producer  # type: ignore[comparison-overlap]
    assert (producer.arguments, producer.is_started) == (("meta:8080", "shop"), True)
    sending.close_producer()
    assert producer.is_closed
    assert qmq_django.producer() is not producer  # type: ignore[comparison-overlap]


def test_a_forked_process_starts_its_own_producer(producer: FakeProducer) -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, b"1" if qmq_django.producer() is not producer else b"0")  # type: ignore[comparison-overlap]
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 1) == b"1"
    os.close(reader)
    os.close(writer)
    assert not producer.is_closed


@pytest.mark.parametrize("value", ["", None, 8080])
def test_a_missing_url_says_what_to_set(settings: Any, value: object) -> None:
    settings.QMQ_URL = value
    with pytest.raises(ImproperlyConfigured, match='QMQ_URL = "localhost:8080"'):
        qmq_django.producer()
