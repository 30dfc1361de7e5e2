"""Messages as a program without manners writes them: byte by byte, past the checks of the client."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qmq.checksum import crc32
from qmq.net.caller import Caller
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.messages import HIDDEN_KEYS, KEY_CREATED, KEY_GROUP
from qmq.protocol.primitives import STRING_BYTES_MAX

if TYPE_CHECKING:
    from tests.support.servers.system import System

CREATED = (KEY_CREATED.encode(), b"1700000000000")
RESERVED_KEYS = sorted(HIDDEN_KEYS)
VALUES: dict[str, bytes] = {
    "4300 digits": b"9" * 4300,
    "4301 digits": b"9" * 4301,
    "5000 digits": b"9" * 5000,
    "0": b"0",
    "-1": b"-1",
    "-5": b"-5",
    "-10^9": b"-1000000000",
    "-2^63": b"-9223372036854775808",
    "2^31 - 1": b"2147483647",
    "2^31": b"2147483648",
    "2^32": b"4294967296",
    "2^63 - 1": b"9223372036854775807",
    "2^63": b"9223372036854775808",
    "2^64": b"18446744073709551616",
    "18 nines": b"9" * 18,
    "microseconds": b"1700000000000000",
    "zeros before": b"0000000000000000000000000007",
    "empty": b"",
    "a space": b" ",
    "white space": b"\t\r\n",
    "space before": b" 7",
    "space behind": b"7 ",
    "plus": b"+7",
    "underscore": b"1_000",
    "hexadecimal": b"0x10",
    "fraction": b"1.5",
    "1e400": b"1e400",
    "NaN": b"NaN",
    "Infinity": b"Infinity",
    "Arabic digits": "٣٤".encode(),
    "wide digits": "１２".encode(),
    "superscript": "²".encode(),
    "NUL": b"\0",
    "NUL behind": b"7\0",
    "escape sequence": b"\x1b]0;title\x07\x1b[2J",
    "C1": "\x9b31m".encode(),
    "bidirectional": "\u202e\u2066".encode(),
    "line separator": "\u2028forged".encode(),
    "byte order mark": "\ufeff7".encode(),
    "no UTF-8": b"\xff\xfe",
    "cut UTF-8": b"7\xe4\xb8",
    "half a pair": b"\xed\xa0\x80",
    "a word": b"soon",
    "JSON": b'{"a": [null, true]}',
    "emoji": "🙂".encode(),
    "longest": b"x" * STRING_BYTES_MAX,
    "longest without UTF-8": b"\xff" * STRING_BYTES_MAX,
}
"""Values that no client writes, or only for other properties, by what they are."""
CREATE_TIMES = {"0", "2^31 - 1", "2^31", "2^32", "18 nines", "microseconds"}
"""Those of them that brokers accept as create time."""


def entry(
    subject: str, message_id: bytes, *properties: tuple[bytes, bytes], tags: Sequence[bytes] = (), created_ms: int = 1
) -> bytes:
    """A message as an entry of a SEND. A text is bytes, of any kind."""
    items = b"".join(_string(key) + _string(value) for key, value in properties)
    raw = b"".join(
        (
            struct.pack(">bqq", 4 if tags else 0, created_ms, created_ms),
            _string(subject.encode()),
            _string(message_id),
            *([bytes((len(tags),)), *map(_string, tags)] if tags else []),
            struct.pack(">i", len(items)),
            items,
        )
    )
    return struct.pack(">q", crc32(raw)) + raw


@dataclass(frozen=True)
class Nonsense:
    """A message with a value in a reserved property."""

    subject: str
    message_id: str
    key: str
    value: bytes
    body: tuple[tuple[bytes, bytes], ...]

    @property
    def is_stored(self) -> bool:
        return self.key != KEY_CREATED or self.value in {VALUES[what] for what in CREATE_TIMES}

    @property
    def is_delivered(self) -> bool:
        """Whether it is stored, and names no other group."""
        return self.is_stored and not (self.key == KEY_GROUP and self.value)

    @property
    def entry(self) -> bytes:
        first = () if self.key == KEY_CREATED else (CREATED,)
        return entry(self.subject, self.message_id.encode(), *first, *self.body, (self.key.encode(), self.value))


def nonsense(subject: str, *body: tuple[bytes, bytes]) -> list[Nonsense]:
    """A message for each reserved property with each value."""
    return [
        Nonsense(subject, f"bad-{key}-{what}", key, value, body)
        for key in RESERVED_KEYS
        for what, value in VALUES.items()
    ]


async def send_entries(system: "System", entries: list[bytes]) -> None:
    """Send entries as they are to the first broker group."""
    name = next(iter(system.brokers))
    caller = Caller(system.host_of(name), system.ports[name][0])
    await caller.connect()
    try:
        frame = await caller.call(Command.SEND_MESSAGE, b"".join(entries), timeout_s=30)
        assert frame.code == ResponseCode.SUCCESS
    finally:
        await caller.close()


def _string(data: bytes) -> bytes:
    return struct.pack(">H", len(data)) + data
