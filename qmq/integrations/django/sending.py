"""Sending from Django: one producer per process, and messages that are sent when the transaction has committed."""

import copy
import os
import threading
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction

from qmq.client.bodies import Body
from qmq.errors import LocalProtocolError
from qmq.protocol.names import check_subject
from qmq.sync import Producer
from qmq.words import nearest

PRODUCER_OPTIONS = ("backoff", "compress_above", "limits", "linger", "make_id", "middleware", "timeouts")
"""Arguments of `qmq.Producer` that QMQ_PRODUCER_OPTIONS may have."""

_lock = threading.Lock()
_producer: Producer | None = None


def producer() -> Producer:
    """Return this process's producer (`qmq.sync.Producer`). It starts with the first call. When the
    process ends, it sends what is queued, as all producers do.

    Raises:
        ImproperlyConfigured: QMQ_URL is not set, or QMQ_PRODUCER_OPTIONS has an unknown argument.
    """
    global _producer
    with _lock:
        if _producer is None:
            started = Producer(metaserver_url(), app=str(getattr(settings, "QMQ_APP", "")), **producer_options())
            started.start()
            _producer = started
        return _producer


def metaserver_url() -> str:
    """The setting QMQ_URL. Raises ImproperlyConfigured if it is missing."""
    url = getattr(settings, "QMQ_URL", "")
    if not isinstance(url, str) or not url:
        raise ImproperlyConfigured(
            f'QMQ_URL is {url!r}; set it to the address of the metaserver, such as QMQ_URL = "localhost:8080"'
        )
    return url


def producer_options() -> dict[str, Any]:
    """The setting QMQ_PRODUCER_OPTIONS: more arguments of the producer. Raises ImproperlyConfigured for an unknown one."""
    options = getattr(settings, "QMQ_PRODUCER_OPTIONS", {})
    if not isinstance(options, dict):
        raise ImproperlyConfigured(
            f"QMQ_PRODUCER_OPTIONS is {options!r}; must be a dictionary of arguments of qmq.Producer"
        )
    for name in options:
        if name not in PRODUCER_OPTIONS:
            raise ImproperlyConfigured(
                f"QMQ_PRODUCER_OPTIONS: {name!r} is unknown: {nearest(str(name), PRODUCER_OPTIONS)}"
            )
    return options


def send_on_commit(
    subject: str,
    body: Body,
    *,
    delay: timedelta | None = None,
    due: datetime | None = None,
    tags: Sequence[str] = (),
    message_id: str | None = None,
    using: str | None = None,
    robust: bool = False,
) -> None:
    """Send a message when the current transaction has committed, and not if it is rolled back. Without a transaction: now.

    The send waits until the message is on disk. Nothing is stored before the commit: if the process ends between the commit and the
    send, or no broker can be reached, the message is lost. `qmq.integrations.django.outbox.send` stores it with the transaction.

    Args:
        body: is copied, so that later changes do not reach the message.
        delay, due: as `Producer.send`.
        using: the alias of the database; default: the default database.
        robust: log an error of the send instead of raising it, and run the callbacks after it.

    Raises:
        IllegalName, LocalProtocolError: the subject is invalid, or both `delay` and `due` are given.
        SendFailed: the message was not stored. With a transaction, the block that commits raises it, and the commit stands.
    """
    check_subject(subject)
    if delay is not None and due is not None:
        raise LocalProtocolError("delay and due are given; use one of them")
    copied, tag_list = copy.deepcopy(body), tuple(tags)

    def send() -> None:
        if delay is not None:
            producer().send(subject, copied, delay=delay, tags=tag_list, message_id=message_id)
        elif due is not None:
            producer().send(subject, copied, due=due, tags=tag_list, message_id=message_id)
        else:
            producer().send(subject, copied, tags=tag_list, message_id=message_id)

    transaction.on_commit(send, using=using, robust=robust)


def close_producer() -> None:
    """Send what is queued and close this process's producer; a later send starts another one."""
    global _producer
    with _lock:
        closing, _producer = _producer, None
    if closing is not None:
        closing.close()


def _forget_producer() -> None:
    """In a forked child: the producer's loop runs in the parent only."""
    global _lock, _producer
    _lock, _producer = threading.Lock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_producer)
