"""Credentials that authenticated a short time ago: requests that carry one need no limit by address."""

import threading
from collections import OrderedDict
from hashlib import blake2b

from qmq.clock import SYSTEM_CLOCK, Clock

CREDENTIALS_MAX = 20_000
"""Credentials remembered by one process; the one unused for longest is dropped first."""
REMEMBERED_SECONDS = 300.0
"""How long a credential counts as verified after it last authenticated."""
DIGEST_BYTES = 16


class VerifiedCredentials:
    """Digests of session keys and tokens. May be used from several threads.

    Being listed grants nothing: the credential is still verified for each request. One that is missing is counted
    towards the limit of its address.
    """

    def __init__(self, credentials_max: int = CREDENTIALS_MAX, clock: Clock = SYSTEM_CLOCK) -> None:
        self._max = credentials_max
        self._clock = clock
        self._until: OrderedDict[bytes, float] = OrderedDict()
        self._lock = threading.Lock()

    def __contains__(self, credential: str) -> bool:
        with self._lock:
            until = self._until.get(_digest(credential))
        return until is not None and self._clock.monotonic() < until

    def add(self, credential: str) -> None:
        """Remember a credential that has just authenticated."""
        digest = _digest(credential)
        with self._lock:
            self._until[digest] = self._clock.monotonic() + REMEMBERED_SECONDS
            self._until.move_to_end(digest)
            if len(self._until) > self._max:
                self._until.popitem(last=False)

    def discard(self, credential: str) -> None:
        """Drop a credential that was rejected."""
        with self._lock:
            self._until.pop(_digest(credential), None)

    def clear(self) -> None:
        """Drop all of them."""
        with self._lock:
            self._until.clear()


def _digest(credential: str) -> bytes:
    return blake2b(credential.encode("utf-8", "surrogateescape"), digest_size=DIGEST_BYTES).digest()


verified = VerifiedCredentials()
"""The ones of this process."""
