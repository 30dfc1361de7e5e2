"""The right to relay one table, for a time: a row in its own database, by the database's clock."""

from qmq.clock import Clock
from qmq.outbox.databases import Connection
from qmq.outbox.dialects import Statements

LEASE_SECONDS = 15.0
RENEW_SECONDS = 5.0
_LEASE_MS = int(LEASE_SECONDS * 1000)
HOLDER_CHARS_MAX = 200


class Lease:
    """The lease of one table. Each time it is taken it has a higher generation, so that a former holder notices.

    A lease that ends later than any can was taken before the clock stepped back, and is free.

    Args:
        holder: unique among all relays, for example with random digits.
    """

    def __init__(self, statements: Statements, holder: str, clock: Clock) -> None:
        self._statements = statements
        self._name = str(statements.table)
        self._holder = holder[-HOLDER_CHARS_MAX:]
        self._clock = clock
        self._generation: int | None = None
        self._renewed_at = 0.0

    @property
    def generation(self) -> int | None:
        """None while it is not held, as far as is known."""
        return self._generation

    def take(self, connection: Connection) -> bool:
        """Take or renew it. Returns whether it is held. Raises DatabaseFailed."""
        if self._generation is not None and self.check(connection):
            return True
        statements, values = self._statements, [self._holder, _LEASE_MS, self._name, _LEASE_MS]
        began = self._clock.monotonic()
        if not connection.change(statements.take_lease, values):
            if connection.rows(statements.lease, [self._name]):
                return False
            connection.change(statements.make_lease, [self._name])
            if not connection.change(statements.take_lease, values):
                return False
        for holder, generation, _ in connection.rows(statements.lease, [self._name]):
            if holder == self._holder:
                self._generation, self._renewed_at = int(generation), began
        return self._generation is not None

    def check(self, connection: Connection) -> bool:
        """Whether it is still held, in the database; renews it every RENEW_SECONDS. Raises DatabaseFailed."""
        if self._generation is None:
            return False
        mine = [self._name, self._holder, self._generation]
        began = self._clock.monotonic()
        if began - self._renewed_at >= RENEW_SECONDS:
            # Also when it has expired: the generation shows that no other relay has taken it since.
            is_held = bool(connection.change(self._statements.renew_lease, [_LEASE_MS, *mine]))
            self._renewed_at = began
        else:
            is_held = bool(connection.rows(self._statements.has_lease, mine))
        if not is_held:
            self._generation = None
        return is_held

    def release(self, connection: Connection) -> None:
        """Let another relay take it at once. Raises DatabaseFailed."""
        if self._generation is not None:
            generation, self._generation = self._generation, None
            connection.change(self._statements.release_lease, [self._name, self._holder, generation])
