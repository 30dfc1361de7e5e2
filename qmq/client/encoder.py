"""From a subject and a body to the bytes of a SEND entry, without a Message in between.

What the messages of a producer share is encoded once: subjects, names of properties, and the times and standard properties of a
millisecond. The bytes are those of `qmq.protocol.messages.encode_entry`.
"""

from collections.abc import Awaitable, Mapping, Sequence
from struct import Struct

from qmq.checksum import crc32
from qmq.client.bodies import KEY_DATA, Body, encode_body
from qmq.client.message import MakeId, standard_properties
from qmq.client.middleware import MiddlewareChain, OutgoingMessage
from qmq.client.outgoing import Outcome, Token, hand_out
from qmq.client.zstd import require_zstd
from qmq.clock import Clock
from qmq.errors import LocalProtocolError, QmqError, SendFailed
from qmq.protocol.messages import (
    FLAG_DELAY,
    FLAG_TAGS,
    KEY_SCHEDULE,
    encode_tags,
    message_id_bytes,
)
from qmq.protocol.names import VALUE_BYTES_MAX, check_subject
from qmq.protocol.primitives import encode_str, utf8
from qmq.receipt import Receipt

CACHED_NAMES_MAX = 10_000
"""Encoded subjects, and encoded names of properties, that a producer remembers; one more, and it forgets the others."""

_TIMES = Struct(">bqq").pack
_LENGTH = Struct(">H").pack
_SIZE = Struct(">i").pack
_CRC = Struct(">q").pack
_DATA = encode_str(KEY_DATA)


class Encoder:
    """Encodes messages for one producer; the arguments are those of `Producer`.

    Raises LocalProtocolError if the library for compression is not installed.
    """

    def __init__(self, app: str, clock: Clock, make_id: MakeId, compress_above: int | None = None) -> None:
        if compress_above is not None:
            require_zstd()
        self._compress_above = compress_above
        self._plain_bytes_max = VALUE_BYTES_MAX if compress_above is None else min(compress_above, VALUE_BYTES_MAX)
        """Longest text that is one property as it is."""
        self._app = app
        self._clock = clock
        self._make_id = make_id
        self._subjects: dict[str, bytes] = {}
        self._names: dict[str, bytes] = {}
        self._stamp(clock.wall_ms())  # raises LocalProtocolError for a wrong name of the application

    def encode(self, subject: str, body: Body, tags: Sequence[str], message_id: str | None) -> tuple[str, bytes]:
        """A message's id and entry. Raises LocalProtocolError or IllegalName for invalid ones."""
        name = self._subjects.get(subject)
        if name is None:
            name = self._learn_subject(subject)
        now_ms = self._clock.wall_ms()
        if now_ms != self._now_ms:
            self._stamp(now_ms)
        if type(body) is str and len(data := utf8(body)) <= self._plain_bytes_max:
            properties = b"".join((_DATA, _LENGTH(len(data)), data))
        else:
            properties = self._encode_properties(encode_body(body, compress_above=self._compress_above))
        if message_id is None:
            message_id = self._make_id()
            id_bytes = message_id.encode()
        else:
            id_bytes = message_id_bytes(message_id)
        standard = self._standard
        raw = b"".join(
            (
                self._tagged_head if tags else self._plain_head,
                name,
                _LENGTH(len(id_bytes)),
                id_bytes,
                encode_tags(tags) if tags else b"",
                _SIZE(len(standard) + len(properties)),
                standard,
                properties,
            )
        )
        return message_id, _CRC(crc32(raw)) + raw

    def message(
        self, subject: str, body: Body, tags: Sequence[str], message_id: str | None, due_ms: int | None
    ) -> OutgoingMessage:
        """A message with all its properties, before it is encoded. Raises LocalProtocolError or IllegalName."""
        if subject not in self._subjects:
            self._learn_subject(subject)
        now_ms = self._clock.wall_ms()
        properties = standard_properties(self._app, now_ms) | encode_body(body, compress_above=self._compress_above)
        if due_ms is not None:
            properties[KEY_SCHEDULE] = str(due_ms)
        if message_id is not None:
            message_id_bytes(message_id)
        return OutgoingMessage(subject, message_id or self._make_id(), properties, tuple(tags), due_ms)

    def encode_message(self, message: OutgoingMessage) -> bytes:
        """The entry of a message. Raises LocalProtocolError for a property that can't be sent."""
        now_ms = self._clock.wall_ms()
        flag, time_ms = (0, now_ms) if message.due_ms is None else (FLAG_DELAY, message.due_ms)
        name = self._subjects.get(message.subject)
        if name is None:
            name = self._learn_subject(message.subject)
        id_bytes = message_id_bytes(message.message_id)
        properties = self._encode_properties(message.properties)
        raw = b"".join(
            (
                _TIMES(flag | FLAG_TAGS if message.tags else flag, now_ms, time_ms),
                name,
                _LENGTH(len(id_bytes)),
                id_bytes,
                encode_tags(message.tags) if message.tags else b"",
                _SIZE(len(properties)),
                properties,
            )
        )
        return _CRC(crc32(raw)) + raw

    def _learn_subject(self, subject: str) -> bytes:
        check_subject(subject)
        if len(self._subjects) >= CACHED_NAMES_MAX:
            self._subjects.clear()
        name = self._subjects[subject] = encode_str(subject)
        return name

    def _stamp(self, now_ms: int) -> None:
        """Encode what all messages of this millisecond share."""
        self._now_ms = now_ms
        self._plain_head = _TIMES(0, now_ms, now_ms)
        self._tagged_head = _TIMES(FLAG_TAGS, now_ms, now_ms)
        self._standard = self._encode_properties(standard_properties(self._app, now_ms))

    def _encode_properties(self, properties: Mapping[str, str]) -> bytes:
        parts: list[bytes] = []
        names = self._names
        for key, value in properties.items():
            name = names.get(key)
            if name is None:
                if len(names) >= CACHED_NAMES_MAX:
                    names.clear()
                name = names[key] = _property_name(key)
            data = utf8(value)
            if len(data) > VALUE_BYTES_MAX:
                raise LocalProtocolError(
                    f"property {key[:60]!r} has {len(data)} bytes; values hold at most {VALUE_BYTES_MAX} bytes,"
                    " use set_large_string for more"
                )
            parts += (name, _LENGTH(len(data)), data)
        return b"".join(parts)


def _property_name(key: str) -> bytes:
    try:
        return encode_str(key)
    except LocalProtocolError as error:
        raise LocalProtocolError(f"the name of property {key[:60]!r}: {error}") from error


class ObservedSends:
    """Encodes messages, and calls the middleware of a producer around it and with the outcomes."""

    def __init__(self, encoder: Encoder, chain: MiddlewareChain) -> None:
        self._encoder = encoder
        self.chain = chain

    def encode(
        self, subject: str, body: Body, tags: Sequence[str], message_id: str | None, due_ms: int | None = None
    ) -> tuple[str, bytes, OutgoingMessage | None]:
        """Return a message's ID and entry, and, if there is middleware, the message: its outcome must be reported."""
        chain = self.chain
        if due_ms is None and not chain:
            message_id, entry = self._encoder.encode(subject, body, tags, message_id)
            return message_id, entry, None
        message = self.message(subject, body, tags, message_id, due_ms)
        return message.message_id, self.entry(message), message if chain else None

    def message(
        self, subject: str, body: Body, tags: Sequence[str], message_id: str | None, due_ms: int | None
    ) -> OutgoingMessage:
        """A message as middleware has changed it: its outcome must be reported. Raises LocalProtocolError or IllegalName."""
        message = self._encoder.message(subject, body, tags, message_id, due_ms)
        self.chain.before_send(message)
        return message

    def entry(self, message: OutgoingMessage) -> bytes:
        """The entry of a message. If it can't be sent, the error is reported as its outcome and raised."""
        try:
            return self._encoder.encode_message(message)
        except QmqError as error:
            self.failed(message, error)
            raise

    async def observe(self, message: OutgoingMessage, sending: Awaitable[Receipt]) -> Receipt:
        outcome: Outcome = SendFailed("the caller was cancelled; the message may be stored")
        try:
            outcome = receipt = await sending
        except SendFailed as error:
            outcome = error
            raise
        finally:
            self.chain.after_send(message, outcome)
        return receipt

    def observed(self, message: OutgoingMessage, token: Token, outcome: Outcome) -> None:
        """Give the outcome of a message to middleware, and to its caller."""
        self.chain.after_send(message, outcome)
        hand_out(token, outcome)

    def failed(self, message: OutgoingMessage | None, error: QmqError) -> None:
        """Give middleware the error of a message that was not queued."""
        if message is not None:
            if not isinstance(error, SendFailed):
                error = SendFailed(str(error), code=error.code, retriable=error.retriable)
            self.chain.after_send(message, error)
