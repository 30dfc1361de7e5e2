"""Marks in Redis, for effects outside of an SQL transaction. They make repetitions rare and do not exclude them: at least once.

    nothing    set to a random token for `lease`: the handler runs
    a token    another consumer's: the delivery is retried
    done       the delivery is acknowledged

The token becomes `done`, for `retention`, when the handler returns, and is removed when it raises. The effect repeats if the
process ends between effect and mark, if the handler takes longer than the lease, or if Redis loses the mark (eviction, failover,
restart).
An error of Redis is an exception as any other: the delivery is retried.
"""

import inspect
import secrets
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, Protocol

from qmq.client.handlers import Handler, is_coroutine_handler
from qmq.errors import LeaseHeld, LocalProtocolError, SettingError
from qmq.idempotent.cleanup import RETENTION
from qmq.idempotent.handlers import AnyDelivery, Decorated, delivery_of
from qmq.idempotent.keys import Key, marker_key
from qmq.idempotent.markers import log_skipped

LEASE = timedelta(minutes=1)
"""How long another consumer's delivery of the message is retried after a process ended inside the handler."""
PREFIX = "qmq:processed:"
_DONE = b"done"
_RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


class Client(Protocol):
    """A client of Redis, such as `redis.Redis` or `redis.asyncio.Redis`."""

    def execute_command(self, *arguments: Any, **options: Any) -> Any: ...


def once(
    client: Client, *, key: Key = None, lease: timedelta = LEASE, retention: timedelta = RETENTION, prefix: str = PREFIX
) -> Callable[[Handler], Callable[..., Any]]:
    """Decorate a handler so that a message that was processed is acknowledged without calling it again. At least once.

    Args:
        client: `redis.Redis` for plain functions, `redis.asyncio.Redis` for coroutine functions.
        key: None: the message ID; a text: the property of that name; a function: what it returns for the delivery.
        lease: longer than the handler ever takes. After a crash inside the handler, the message is retried until it has expired,
            which needs fewer than the consumer's `attempts_max`.
        retention: how long a message counts as processed; not less than the subject's retention.
        prefix: what the names of the keys in Redis begin with.

    Raises:
        LocalProtocolError: the client is asynchronous and the handler is not, or the reverse; or the handler takes other arguments.
        SettingError: lease or retention is shorter than a millisecond.
    """
    lease_ms, retention_ms = _milliseconds("lease", lease), _milliseconds("retention", retention)
    is_async = inspect.iscoroutinefunction(client.execute_command)

    def lease_of(delivery: AnyDelivery) -> "_Lease":
        return _Lease(delivery, prefix.encode() + marker_key(delivery, key), lease_ms, retention_ms)

    def decorate(handler: Handler) -> Callable[..., Any]:
        decorated = Decorated(handler)
        if is_coroutine_handler(handler) is not is_async:
            kinds = ("an asynchronous", "a plain function") if is_async else ("a plain", "a coroutine function")
            raise LocalProtocolError(
                f"{kinds[0]} client of Redis can't serve {kinds[1]}; use redis.asyncio.Redis for `async def`, redis.Redis for `def`"
            )

        def handle(*arguments: Any) -> Any:
            leased = lease_of(delivery_of(arguments))
            if not client.execute_command(*leased.take) and leased.is_done(client.execute_command(*leased.read)):
                return log_skipped(leased.delivery)
            try:
                result = decorated.call(arguments)
            except BaseException:
                with suppress(Exception):  # it expires
                    client.execute_command(*leased.release)
                raise
            client.execute_command(*leased.finish)
            return result

        async def handle_async(*arguments: Any) -> Any:
            leased = lease_of(delivery_of(arguments))
            if not await client.execute_command(*leased.take) and leased.is_done(
                await client.execute_command(*leased.read)
            ):
                return log_skipped(leased.delivery)
            try:
                result = await decorated.call(arguments)
            except BaseException:
                with suppress(Exception):  # it expires
                    await client.execute_command(*leased.release)
                raise
            await client.execute_command(*leased.finish)
            return result

        return decorated.wraps(handle_async if is_async else handle)

    return decorate


class _Lease:
    """The commands for one delivery."""

    def __init__(self, delivery: AnyDelivery, name: bytes, lease_ms: int, retention_ms: int) -> None:
        self.delivery = delivery
        self._token = secrets.token_hex(16).encode()
        self.take = ("SET", name, self._token, "NX", "PX", lease_ms)
        """Answered with a false value when something is there."""
        self.read = ("GET", name)
        self.finish = ("SET", name, _DONE, "PX", retention_ms)
        """Also if another consumer has the lease now: the effect has happened."""
        self.release = ("EVAL", _RELEASE, 1, name, self._token)

    def is_done(self, holder: str | bytes | None) -> bool:
        """Whether what `read` returned says that the message was processed. Raises LeaseHeld if another consumer has the lease."""
        found = holder.encode() if isinstance(holder, str) else holder
        # Its own token: the client has repeated a command whose answer was lost.
        if found not in (_DONE, self._token):
            raise LeaseHeld(
                f"another consumer processes message {self.delivery.message_id!r}, or ended while it did; it is retried until the"
                " lease has expired"
            )
        return found == _DONE


def _milliseconds(what: str, value: timedelta) -> int:
    found = value // timedelta(milliseconds=1)
    if found < 1:
        raise SettingError(f"{what} is {value}; must be at least one millisecond")
    return found
