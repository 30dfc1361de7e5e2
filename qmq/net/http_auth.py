"""Authentication of HTTP requests with the node secret: a stateless challenge, and a signature over each request.

A server answers 401 with `WWW-Authenticate: QMQ-HMAC nonce="..."`. The client repeats the request with
`Authorization: QMQ-HMAC nonce="...", counter="N", mac="..."`, where `mac` covers nonce, counter, method, target and body. It uses
the nonce for later requests too. A nonce is the server's time and a MAC of it by a key that only this server process has, so a
recorded request is not accepted by another process. A change (any method but GET and HEAD) is accepted once per nonce and counter.
"""

import hashlib
import hmac
import itertools
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable

from qmq.clock import Clock
from qmq.net.node_secret import NodeSecret

SCHEME = "QMQ-HMAC"
CONTEXT = "pyqmq http v1"
NONCE_SECONDS = 300.0
"""How long a nonce is accepted; a client with an older one is challenged again."""
_NONCE_MS = int(NONCE_SECONDS * 1000)
USED_MAX = 100_000
"""Changes of the last NONCE_SECONDS that are remembered. One more makes all nonces invalid: each client is challenged again."""
SERVERS_MAX = 1_000
"""Servers whose nonce a client remembers."""
COUNTER_DIGITS_MAX = 18
HEADER_CHARS_MAX = 512

_NONCE = r"[0-9a-f]{1,16}\.[0-9a-f]{32}\.[0-9a-f]{64}"
_CHALLENGE = re.compile(rf'{SCHEME} nonce="({_NONCE})"')
_AUTHORIZATION = re.compile(
    rf'{SCHEME} nonce="({_NONCE})", counter="([0-9]{{1,{COUNTER_DIGITS_MAX}}})", mac="([0-9a-f]{{64}})"'
)


def _signed_parts(nonce: str, counter: int, method: str, target: str, body: bytes) -> tuple[bytes, ...]:
    digest = hashlib.sha256(body).digest()
    return nonce.encode(), str(counter).encode(), method.encode(), target.encode(), digest


class RequestSigner:
    """The client's side. One for a process, from any thread: nonces are remembered by server."""

    def __init__(self, secret: NodeSecret) -> None:
        self._secret = secret
        self._lock = threading.Lock()
        self._nonces: OrderedDict[str, tuple[str, itertools.count[int]]] = OrderedDict()
        """By server: its nonce, and the counter of the requests that use it."""

    def header(self, server: str, method: str, target: str, body: bytes) -> str:
        """The Authorization header's value; "" for a server that has sent no challenge yet.

        Args:
            server: `host:port`.
            target: path and query as they are sent.
        """
        with self._lock:
            if server not in self._nonces:
                return ""
            nonce, counters = self._nonces[server]
            counter = next(counters)
        mac = self._secret.sign(CONTEXT, *_signed_parts(nonce, counter, method, target, body))
        return f'{SCHEME} nonce="{nonce}", counter="{counter}", mac="{mac.hex()}"'

    def learn(self, server: str, challenge: str) -> bool:
        """Remember the nonce of a WWW-Authenticate header; False when it holds none."""
        found = _CHALLENGE.fullmatch(challenge)
        if found is None:
            return False
        with self._lock:
            self._nonces[server] = found[1], itertools.count(1)
            self._nonces.move_to_end(server)
            while len(self._nonces) > SERVERS_MAX:
                self._nonces.popitem(last=False)
        return True


class Challenges:
    """The server's side, for one process; on its event loop.

    Args:
        random: returns this number of random bytes.
    """

    def __init__(
        self, secret: NodeSecret, clock: Clock, *, random: Callable[[int], bytes] = secrets.token_bytes
    ) -> None:
        self._secret = secret
        self._clock = clock
        self._random = random
        self._key = random(32)
        self._used: dict[tuple[str, int], int] = {}
        """Changes accepted, and when they may be forgotten (ms); in the order of that time."""

    def challenge(self) -> str:
        """A WWW-Authenticate header's value with a new nonce."""
        head = f"{self._now_ms():x}.{self._random(16).hex()}"
        return f'{SCHEME} nonce="{head}.{self._nonce_mac(head)}"'

    def may_be_valid(self, header: str) -> bool:
        """Whether an Authorization header carries a nonce that is accepted now: checked before a body is read."""
        return self._current(header) is not None

    def _current(self, header: str) -> "re.Match[str] | None":
        """The parts of a header whose nonce is accepted now: nonce, counter and signature."""
        found = _AUTHORIZATION.fullmatch(header) if len(header) <= HEADER_CHARS_MAX else None
        return found if found is not None and self._is_current(found[1]) else None

    def accept(self, header: str, method: str, target: str, body: bytes) -> bool:
        """Whether a request is signed with the secret, for this process, and no repetition of a change."""
        found = self._current(header)
        if found is None:
            return False
        nonce, counter = found[1], int(found[2])
        parts = _signed_parts(nonce, counter, method, target, body)
        if self._secret.signer_of(bytes.fromhex(found[3]), CONTEXT, *parts) is None:
            return False
        return method in ("GET", "HEAD") or self._use(nonce, counter)

    def _use(self, nonce: str, counter: int) -> bool:
        now_ms = self._now_ms()
        while self._used and (oldest := next(iter(self._used.items())))[1] < now_ms:
            del self._used[oldest[0]]
        if (nonce, counter) in self._used:
            return False
        if len(self._used) >= USED_MAX:
            self._used.clear()
            self._key = self._random(32)
            return False
        # No nonce that is accepted now is accepted after this time.
        self._used[nonce, counter] = now_ms + _NONCE_MS
        return True

    def _is_current(self, nonce: str) -> bool:
        head, _, mac = nonce.rpartition(".")
        if not hmac.compare_digest(self._nonce_mac(head), mac):
            return False
        return self._now_ms() - int(head.partition(".")[0], 16) <= _NONCE_MS

    def _nonce_mac(self, head: str) -> str:
        return hmac.new(self._key, head.encode(), hashlib.sha256).hexdigest()

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)
