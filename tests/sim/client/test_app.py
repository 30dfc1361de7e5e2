"""`App.adapt`: a program changes the consumers that others have registered."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qmq import App, Delivery, Producer
from qmq.errors import LocalProtocolError
from tests.support.drivers.in_process import small_system


async def test_adapt_wraps_handlers_and_sets_their_concurrency(tmp_path: Path) -> None:
    events: list[str] = []

    def wrap(handler: Callable[..., Any]) -> Callable[..., Any]:
        async def wrapped(delivery: Delivery) -> None:
            events.append("before")
            await handler(delivery)
            events.append("after")
            if events.count("after") == 3:
                app.stop()

        return wrapped

    async with small_system(tmp_path) as system:
        app = App(system.meta_url)

        @app.consumer("orders", group="g", concurrency=8, start="earliest")
        async def handle(delivery: Delivery) -> None:
            events.append("handle")
            await asyncio.sleep(1)

        assert app.handlers_max == 8
        app.adapt(wrap=wrap, concurrency=1)
        assert app.handlers_max == 1
        async with Producer(system.meta_url) as producer:
            for _ in range(3):
                await producer.send("orders", "text")
        await app.run()
    assert events == ["before", "handle", "after"] * 3, "one at a time, and the wrapper around each"
    with pytest.raises(LocalProtocolError, match="concurrency=0"):
        app.adapt(concurrency=0)


def test_adapt_leaves_the_registered_function_as_it_is() -> None:
    app = App("localhost:8080")

    @app.consumer("orders", group="g", concurrency=8)
    async def handle(delivery: Delivery) -> str:
        return "unchanged"

    app.adapt(wrap=lambda handler: lambda delivery: None)
    assert app.handlers_max == 8, "without a number it stays"
    assert asyncio.run(handle(None)) == "unchanged"  # type: ignore[arg-type]
