"""Batches of deliveries: received, processed and acknowledged together."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar, overload

from qmq.client.delivery import Delivery

D = TypeVar("D")


class Deliveries(Sequence[D]):
    """The deliveries of a batch in the order in which they arrived."""

    __slots__ = ("_deliveries",)

    def __init__(self, deliveries: list[D]) -> None:
        self._deliveries = deliveries

    def __len__(self) -> int:
        return len(self._deliveries)

    @overload
    def __getitem__(self, index: int) -> D: ...

    @overload
    def __getitem__(self, index: slice) -> list[D]: ...

    def __getitem__(self, index: int | slice) -> D | list[D]:
        return self._deliveries[index]

    def __iter__(self) -> Iterator[D]:
        return iter(self._deliveries)

    def __repr__(self) -> str:
        return f"Batch({len(self._deliveries)} deliveries)"


class Batch(Deliveries[Delivery]):
    """Deliveries of `Consumer.batches`, in the order in which they arrived."""

    __slots__ = ()

    async def ack(self) -> None:
        """Acknowledge all deliveries that are not settled.

        Returns once the acknowledgements are queued; `Consumer.close` waits until the broker has them.
        """
        deliveries = self._deliveries
        if deliveries and deliveries[0]._pulled.middleware is not None:
            for delivery in deliveries:
                if not delivery.is_settled:
                    await delivery.ack()
            return
        at, count = 0, len(deliveries)
        while at < count:
            first = deliveries[at]
            pulled, begin = first._pulled, first._index
            length = min(count - at, len(pulled.marks) - begin)
            last = deliveries[at + length - 1]
            if last._pulled is not pulled or last._index != begin + length - 1:
                # Messages in between were not delivered, or the rest of this answer is in another batch.
                length = 1
            pulled.settle_range(begin, begin + length)
            at += length

    async def retry(self, deliveries: Iterable[Delivery] | None = None, *, cause: str = "") -> None:
        """Retry deliveries of this batch, by default all that are not settled; returns once the next attempt of each is stored.

        Deliveries that are settled are skipped, the others stay open. `cause`: as for `Delivery.retry`.

        Raises:
            SendFailed: the next attempt of at least one is not stored; these stay unsettled.
        """
        chosen = self._deliveries if deliveries is None else list(deliveries)
        retries = [delivery.retry(cause=cause) for delivery in chosen if not delivery.is_settled]
        for outcome in await asyncio.gather(*retries, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
