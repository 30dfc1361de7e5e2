"""An API that sends a message per order, and a consumer in the same process that issues receipts.

QMQ_META is the address of the metaserver; default: localhost:8080.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Request
from pydantic import BaseModel

import qmq

QMQ_URL = os.environ.get("QMQ_META", "localhost:8080")
STOP_SECONDS = 30.0
"""How long a shutdown waits for running handlers; then their messages are delivered again."""

worker = qmq.App(QMQ_URL, app="shop-api")
receipts: dict[str, str] = {}


class Order(BaseModel):
    """The body of POST /orders."""

    customer: str
    cents: int


@worker.consumer("example.order-paid", group="receipts", concurrency=8, start="earliest")
async def issue_receipt(delivery: qmq.Delivery) -> None:
    """Return to acknowledge the message; raise to retry it."""
    order = delivery.properties
    receipts[delivery.message_id] = f"{order['customer']} paid {int(order['cents']) / 100:.2f}"


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Start the producer and the consumers with the server, and stop them with it."""
    async with qmq.Producer(QMQ_URL, app="shop-api") as producer:
        app.state.producer = producer
        app.state.consuming = consuming = asyncio.create_task(worker.run())
        try:
            yield
        finally:
            worker.stop()
            async with asyncio.timeout(STOP_SECONDS):
                await consuming


app = FastAPI(lifespan=lifespan)


def producer_of(request: Request) -> qmq.Producer:
    """The producer, as a dependency: tests can replace it with `app.dependency_overrides`."""
    producer: qmq.Producer = request.app.state.producer
    return producer


@app.post("/orders", status_code=202)
async def place_order(order: Order, producer: Annotated[qmq.Producer, Depends(producer_of)]) -> dict[str, str]:
    """Answer when the message is on disk."""
    try:
        receipt = await producer.send("example.order-paid", order.model_dump())
    except qmq.QmqError as error:
        raise HTTPException(503, f"the order was not stored: {error}") from error
    return {"message_id": receipt.message_id}


@app.get("/receipts/{message_id}")
async def read_receipt(message_id: str) -> dict[str, str]:
    """Return the receipt that the consumer issued."""
    if message_id not in receipts:
        raise HTTPException(404, "no receipt yet")
    return {"text": receipts[message_id]}


@app.get("/healthz")
async def health(request: Request) -> dict[str, str]:
    """Fail when the consumers have ended, so that the orchestrator restarts the process."""
    if request.app.state.consuming.done():
        raise HTTPException(503, "the consumers have ended")
    return {"status": "ok"}
