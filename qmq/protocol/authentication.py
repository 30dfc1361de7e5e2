"""AUTHENTICATE: a connection proves that its client knows the node secret, and the server that it does.

Two requests. The first carries the client's nonce and is answered with the server's; the second carries the client's proof and is
answered with the server's proof. Nonces and proofs are hexadecimal in a map of strings.
"""

from dataclasses import dataclass

from qmq.errors import ProtocolError
from qmq.protocol.commands import Body
from qmq.protocol.extensions import Fields, encode_fields

NONCE_BYTES = 32
PROOF_BYTES = 32
CLIENT_CONTEXT = "pyqmq connection v1 client"
SERVER_CONTEXT = "pyqmq connection v1 server"
"""Contexts of the two proofs: neither can be used as the other."""


@dataclass(frozen=True, slots=True)
class AuthenticateRequest:
    """`proof` is empty in the first request. `purpose` is "node" or "console", and part of both proofs."""

    purpose: str
    nonce: bytes
    proof: bytes = b""

    def encode(self, version: int) -> bytes:
        return encode_fields(purpose=self.purpose, nonce=self.nonce.hex(), proof=self.proof.hex())

    @classmethod
    def decode(cls, body: Body, version: int) -> "AuthenticateRequest":
        fields = Fields(body)
        proof = _hex(fields, "proof", PROOF_BYTES) if fields.text("proof") else b""
        return cls(fields.text("purpose"), _hex(fields, "nonce", NONCE_BYTES), proof)


@dataclass(frozen=True, slots=True)
class AuthenticateResponse:
    """The server's nonce, and in the second answer its proof."""

    nonce: bytes
    proof: bytes = b""

    def encode(self, version: int) -> bytes:
        return encode_fields(nonce=self.nonce.hex(), proof=self.proof.hex())

    @classmethod
    def decode(cls, body: Body, version: int) -> "AuthenticateResponse":
        fields = Fields(body)
        proof = _hex(fields, "proof", PROOF_BYTES) if fields.text("proof") else b""
        return cls(_hex(fields, "nonce", NONCE_BYTES), proof)


def _hex(fields: Fields, key: str, size: int) -> bytes:
    text = fields.text(key)
    try:
        value = bytes.fromhex(text) if len(text) == 2 * size else b""
    except ValueError:
        value = b""
    if len(value) != size:
        raise ProtocolError(f"{key}: must be {size} bytes in hexadecimal")
    return value
