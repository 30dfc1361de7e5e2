"""The producer of an outbox in each process."""

import threading
from typing import Any

import pytest

from qmq import Producer, sync
from qmq.errors import ClientClosed, SettingError
from qmq.outbox.producers import ProcessProducer

NOWHERE = "127.0.0.1:9"


def test_a_function_is_called_once_and_what_it_returns_is_started() -> None:
    made: list[sync.Producer] = []

    def make() -> sync.Producer:
        made.append(sync.Producer(NOWHERE))
        return made[-1]

    find = ProcessProducer(make)
    assert not made
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(find())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert found == [made[0].inner] * 4
    made[0].inner.check_started()
    made[0].close()
    assert find() is made[0].inner, "a closed one is left to the outbox, which leaves its messages to the relay"


async def test_a_producer_must_be_started() -> None:
    producer = Producer(NOWHERE)
    find = ProcessProducer(producer)
    with pytest.raises(ClientClosed, match="this client is not started"):
        find()
    async with producer:
        assert find() is producer
        assert ProcessProducer(lambda: producer)() is producer


def test_what_is_no_producer_is_refused() -> None:
    nothing: Any = None
    with pytest.raises(SettingError, match="producer None: must be a qmq"):
        ProcessProducer(nothing)
    with pytest.raises(SettingError, match="returned 17, which is none"):
        ProcessProducer(lambda: 17)()  # type: ignore[arg-type, return-value]


def test_a_function_that_fails_is_called_again() -> None:
    producer = sync.Producer(NOWHERE)
    results: list[Any] = [ValueError("away"), producer]

    def make() -> sync.Producer:
        result = results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result  # type: ignore[no-any-return]

    find = ProcessProducer(make)
    with pytest.raises(ValueError, match="away"):
        find()
    assert find() is producer.inner
    producer.close()
