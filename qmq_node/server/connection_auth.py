"""Authentication of a connection with the node secret (command AUTHENTICATE): both ends, each proves itself to the other.

It protects against who can connect, not against who can change what others send: that takes TLS.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from qmq.errors import AuthenticationFailed
from qmq.net.caller import Caller
from qmq.net.node_secret import FILE_VARIABLE, VARIABLE, NodeSecret
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.extensions import (
    CLIENT_CONTEXT,
    NONCE_BYTES,
    SERVER_CONTEXT,
    AuthenticateRequest,
    AuthenticateResponse,
    Refusal,
)
from qmq.protocol.frames import Frame
from qmq_node.server.connection import Connection

PURPOSES = ("node", "console")
PURPOSE_CHARS_MAX = 300
"""A longer purpose is refused, so that connections without a proof keep little memory."""
REFUSED = "auth.refused"
REQUIRED = "auth.required"

PurposeCheck = Callable[[Connection, str], str]
"""Returns why a connection that has proved itself for a purpose is refused; "" if it is not."""


def known_purpose(_: Connection, purpose: str) -> str:
    """Accept the purposes of nodes and the console."""
    return "" if purpose in PURPOSES else f"purpose {purpose[:40]!r} is unknown"


async def authenticate(caller: Caller, secret: NodeSecret, purpose: str, *, timeout_s: float) -> None:
    """Prove to the server of a connection that this process knows the secret, and check the server's proof.

    Args:
        purpose: what the connection is for, part of both proofs: "node", "console", or that of a slave (`SlaveClaim`).
        timeout_s: for each of the two requests.

    Raises:
        AuthenticationFailed: the server refuses the proof, or has none.
        CallTimeout, ConnectionLost: as `Caller.call`.
    """
    nonce = secrets.token_bytes(NONCE_BYTES)
    first = await _ask(caller, AuthenticateRequest(purpose, nonce), timeout_s)
    parts = (first.nonce, nonce, purpose.encode())
    proof = secret.sign(CLIENT_CONTEXT, *parts)
    second = await _ask(caller, AuthenticateRequest(purpose, nonce, proof), timeout_s)
    if secret.signer_of(second.proof, SERVER_CONTEXT, *parts) is None:
        raise AuthenticationFailed(
            f"{caller.address} accepts any proof but does not have the node secret: it does not belong to this system"
        )


async def _ask(caller: Caller, request: AuthenticateRequest, timeout_s: float) -> AuthenticateResponse:
    frame = await caller.call(Command.AUTHENTICATE, request.encode(), timeout_s=timeout_s)
    if frame.code == ResponseCode.PARAM_ERROR:
        refusal = Refusal.decode(frame.body)
        raise AuthenticationFailed(f"{caller.address}: {refusal.message}", code=refusal.code or REFUSED)
    if frame.code != ResponseCode.SUCCESS:
        raise AuthenticationFailed(
            f"{caller.address} answered code {frame.code} to the authentication: it has no node secret, or is of an older"
            " version"
        )
    return AuthenticateResponse.decode(frame.body)


@dataclass(slots=True)
class _Peer:
    """What a connection has shown. A pair of nonces serves one proof."""

    client_nonce: bytes = b""
    server_nonce: bytes = b""
    purpose: str = ""
    is_proven: bool = False


@dataclass(eq=False, repr=False)
class ConnectionAuth:
    """The server's side: which connections have proved that they know the secret, and for which purpose."""

    _secret: NodeSecret | None
    """None: every connection may do everything."""
    check: PurposeCheck = known_purpose
    """Called when a peer has proved itself, before this side does."""
    _peers: dict[Connection, _Peer] = field(default_factory=dict, init=False)
    """Connections that began to authenticate and are open."""

    def is_trusted(self, connection: Connection) -> bool:
        """Whether commands of nodes and the console are accepted on this connection."""
        peer = self._peers.get(connection)
        return self._secret is None or (peer is not None and peer.is_proven)

    def purpose_of(self, connection: Connection) -> str:
        """Return what a connection has proved itself for; "" if it has not."""
        peer = self._peers.get(connection)
        return peer.purpose if peer is not None and peer.is_proven else ""

    def refuse(self, connection: Connection, frame: Frame) -> None:
        """Answer a command that only trusted connections may send."""
        text = (
            f"command {frame.code} requires the node secret of this system: set {VARIABLE} or {FILE_VARIABLE} for the process"
            " that sends it"
        )
        connection.reply(frame, ResponseCode.PARAM_ERROR, Refusal(REQUIRED, text).encode())

    def handle(self, connection: Connection, frame: Frame) -> str:
        """Answer an AUTHENTICATE request. Raises ProtocolError.

        Returns why the proof was refused, after which the connection is closed; "" when nothing is wrong.
        """
        request = AuthenticateRequest.decode(frame.body)
        if self._secret is None:
            return self._fail(connection, frame, "this process has no node secret to authenticate with")
        if len(request.purpose) > PURPOSE_CHARS_MAX:
            return self._fail(connection, frame, f"purpose {request.purpose[:40]!r}... is unknown")
        peer = self._peers.get(connection)
        if peer is None:
            peer = self._peers[connection] = _Peer()
            connection.on_close(lambda: self._peers.pop(connection, None))
        if not request.proof:
            peer.client_nonce, peer.server_nonce = request.nonce, secrets.token_bytes(NONCE_BYTES)
            peer.purpose, peer.is_proven = request.purpose, False
            connection.reply(frame, ResponseCode.SUCCESS, AuthenticateResponse(peer.server_nonce).encode())
            return ""
        parts = (peer.server_nonce, peer.client_nonce, peer.purpose.encode())
        is_known = bool(peer.server_nonce) and (request.nonce, request.purpose) == (peer.client_nonce, peer.purpose)
        signer = self._secret.signer_of(request.proof, CLIENT_CONTEXT, *parts) if is_known else None
        peer.server_nonce = b""
        if signer is None:
            return self._fail(connection, frame, "the node secret does not match this system's")
        if problem := self.check(connection, peer.purpose):
            return self._fail(connection, frame, problem)
        peer.is_proven = True
        # With the secret that the client proved: while one is being replaced, the client may know that one only.
        body = AuthenticateResponse(parts[0], signer.sign(SERVER_CONTEXT, *parts)).encode()
        connection.reply(frame, ResponseCode.SUCCESS, body)
        return ""

    def _fail(self, connection: Connection, frame: Frame, why: str) -> str:
        connection.reply(frame, ResponseCode.PARAM_ERROR, Refusal(REFUSED, why).encode())
        connection.finish()
        return why
