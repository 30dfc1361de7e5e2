"""How often a repeated event is worth a line in the log."""

import logging
from dataclasses import dataclass, field

INTERVAL_SECONDS = 10.0
"""From the first line about a key to the second; doubled with each further line."""
INTERVAL_SECONDS_MAX = 3600.0
KEYS_MAX = 10_000
"""Keys remembered; when there are more, all are forgotten and may be logged again."""


@dataclass(slots=True)
class _Key:
    next_at: float
    interval: float
    suppressed: int = 0


@dataclass(eq=False, repr=False)
class LogLimiter:
    """Admits the first event of a key and later ones with a back-off, with the number of those suppressed between."""

    _interval: float = INTERVAL_SECONDS
    _interval_max: float = INTERVAL_SECONDS_MAX
    _keys: dict[object, _Key] = field(default_factory=dict, init=False)

    def admit(self, key: object, now: float) -> int | None:
        """How many events of a key were suppressed since its last line; None when this one is suppressed as well.

        Args:
            now: monotonic seconds. A key without events for an interval after its next line was due starts over.
        """
        known = self._keys.get(key)
        if known is None or now >= known.next_at + known.interval:
            if known is None and len(self._keys) >= KEYS_MAX:
                self._keys.clear()
            self._keys[key] = _Key(now + self._interval, self._interval)
            return known.suppressed if known is not None else 0
        if now < known.next_at:
            known.suppressed += 1
            return None
        suppressed = known.suppressed
        known.interval = min(2 * known.interval, self._interval_max)
        known.next_at, known.suppressed = now + known.interval, 0
        return suppressed

    def warning(
        self, logger: logging.Logger, peer: str, reason: str, what: str, now: float, *, level: int = logging.WARNING
    ) -> None:
        """Log what a peer did, unless lines for the same reason and the same host are suppressed now.

        Args:
            peer: `host:port`.
        """
        suppressed = self.admit((reason, peer.rpartition(":")[0]), now)
        if suppressed is None:
            return
        more = f"; {suppressed} more of this host since the last line" if suppressed else ""
        logger.log(level, "%s: %s (%s%s)", peer, what, reason, more)

    def error(self, logger: logging.Logger, key: object, text: str, now: float) -> None:
        """Log an error, unless lines with the same key are suppressed now."""
        suppressed = self.admit(key, now)
        if suppressed is not None:
            more = f" ({suppressed} more since the last line)" if suppressed else ""
            logger.error("%s%s", text, more)
