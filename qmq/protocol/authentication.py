"""AUTHENTICATE: a connection proves that its client knows the node secret, and the server that it does.

Two requests. The first carries the client's nonce and is answered with the server's; the second carries the client's proof and is
answered with the server's proof. Nonces and proofs are hexadecimal in a map of strings.
"""

from dataclasses import dataclass
from typing import Annotated

from qmq.protocol.map_kinds import MapHex, Text
from qmq.protocol.structures import Structure

NONCE_BYTES = 32
PROOF_BYTES = 32
CLIENT_CONTEXT = "pyqmq connection v1 client"
SERVER_CONTEXT = "pyqmq connection v1 server"
"""Contexts of the two proofs: neither can be used as the other."""

Nonce = Annotated[bytes, MapHex(NONCE_BYTES)]
Proof = Annotated[bytes, MapHex(PROOF_BYTES)]


@dataclass(frozen=True, slots=True)
class AuthenticateRequest(Structure):
    """`proof` is empty in the first request. `purpose` is "node" or "console", and part of both proofs."""

    purpose: Text
    nonce: Nonce
    proof: Proof = b""


@dataclass(frozen=True, slots=True)
class AuthenticateResponse(Structure):
    """The server's nonce, and in the second answer its proof."""

    nonce: Nonce
    proof: Proof = b""
