"""What the tables of `spark.read.format("qmq")` look like: the input schemas of every job, as constants.

Times are TIMESTAMP, UTC, exact to the millisecond that nodes record. Counts and places are LONG. A column is nullable only
where null has a meaning, which stands beside it. The lake's tables have the same columns, and `date` and `hour` from their paths.
"""

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)


def _columns(*fields: tuple[str, DataType] | tuple[str, DataType, bool]) -> StructType:
    return StructType([StructField(field[0], field[1], field[2] if len(field) == 3 else False) for field in fields])


_TEXT, _LONG, _INT, _TIME, _FLAG = StringType(), LongType(), IntegerType(), TimestampType(), BooleanType()
_TAGS, _PROPERTIES = ArrayType(_TEXT), MapType(_TEXT, _TEXT)

_PLACE = (("broker_group", _TEXT), ("subject", _TEXT))
_GROUP = (*_PLACE, ("group", _TEXT))
_STORED = (*_PLACE, ("sequence", _LONG), ("stored_at", _TIME, True), ("size", _INT))

INDEX = _columns(
    *_STORED,
    ("log_offset", _LONG),
    ("tag_bits", _LONG),
    ("is_withheld", _FLAG),
)
"""A row for each stored message: its consume sequence, its size in bytes as stored, where it lies in the message log, the
64-bit set of its tags (`qmq.protocol.scan.tag_digest`, as a signed number). A withheld message was lost to damage: its time is
null, its size and offset are 0."""

PROGRESS = _columns(
    *_GROUP,
    ("position", _LONG),
    ("at", _TIME),
    ("kind", _TEXT),
    ("consumer_key", _LONG),
    ("consumer_id", _TEXT, True),
    ("begin", _LONG),
    ("end", _LONG),
    ("next_sequence", _LONG),
    ("is_broadcast", _FLAG),
)
"""A row for each thing a consumer group did; `position` is the entry's number in the group's history. `kind` is one of
`PROGRESS_KINDS`. [begin, end) are pull sequences; those of a `pull` stand for consume sequences
[next_sequence - (end - begin), next_sequence). A consumer id is null when the node no longer knows whose key it is.

A stream outlives histories: positions continue where one follows another, and a `forget` stands between those of a group that was
forgotten and one of that name made later. Its `next_sequence` is -1. Where the node removed the history before it was read to
its end, the time of the `forget` is when that was noticed."""

MESSAGES = _columns(
    *_STORED,
    ("message_id", _TEXT, True),
    ("created_at", _TIME, True),
    ("tags", _TAGS, True),
    ("properties", _PROPERTIES, True),
)
"""A row for each stored message with what it holds; `created_at` is the producer's clock. All that is in a message is null for a
withheld one. A large text (`key#part0`, `key#part1`, ...) is one property."""

_FAILURE = (
    *_GROUP,
    ("sequence", _LONG),
    ("stored_at", _TIME, True),
    ("message_id", _TEXT, True),
    ("attempt", _INT, True),
    ("cause", _TEXT),
    ("size", _INT),
)

RETRIES = _columns(*_FAILURE)
"""A row for each message in a retry subject, under its original subject and group; `sequence` is that of the retry subject.
`attempt` is the one to come (null: the message does not say). `cause` is a short label: what the consumer gave, `consumer_left`
for what the broker put there, `unknown` otherwise."""

DEAD_LETTERS = _columns(*_FAILURE)
"""A row for each message in a dead-letter subject, as `RETRIES`; `attempt` is the last one."""

DELAYED = _columns(
    ("broker_group", _TEXT),
    ("subject", _TEXT, True),
    ("due_at", _TIME),
    ("number", _LONG),
    ("size", _INT),
    ("state", _TEXT),
)
"""A row for each message that a delay node keeps in its schedule, gone ones included until their hour is deleted. `number` is
within its due hour, `size` is in bytes as stored, `state` a `qmq.protocol.delayed.DelayedState`."""

NODES = _columns(
    ("broker_group", _TEXT),
    ("node_id", _TEXT),
    ("kind", _TEXT),
    ("role", _TEXT),
    ("address", _TEXT),
    ("admin_address", _TEXT),
    ("state", _TEXT),
    ("log_end_bytes", _LONG),
    ("disk_used_bytes", _LONG, True),
    ("disk_total_bytes", _LONG, True),
    ("seen_at", _TIME, True),
    ("measured_at", _TIME),
)
"""A row for each node that the metaserver knows of, as it is when it is read. The disk's bytes are the node's own word, null when
it can't be reached; `seen_at` is null for one without a heartbeat since the metaserver started."""

HOLES = _columns(
    ("table", _TEXT),
    *_GROUP,
    ("begin", _LONG),
    ("end", _LONG),
    ("reason", _TEXT),
    ("found_at", _TIME),
)
"""A row for each stretch [begin, end) that a read with `on_gap` = `record` could not have: consume sequences, positions of a
group's history, or numbers of an hour (`subject` is the hour then, YYYYMMDDHH). `group` is empty where there is none. `reason`
is `retention`, `damage`, or, with begin = end, where a stream left a history: `forgotten` (with its group) or `rebuilt` (the node
rebuilt its files)."""

SCHEMAS = {
    "index": INDEX,
    "progress": PROGRESS,
    "messages": MESSAGES,
    "retries": RETRIES,
    "dead_letters": DEAD_LETTERS,
    "delayed": DELAYED,
    "nodes": NODES,
    "holes": HOLES,
}
"""The schema of every table by its name, as in option `table`."""

PROGRESS_KINDS = ("pull", "ack", "settle", "offline", "start", "forget")
"""Values of `kind`: what was handed out; what a consumer acked; what the broker acked on its behalf, because it moved it to the
retry subject; a consumer that left; a group that began, or was set elsewhere; a group that was forgotten."""

SEQUENCES_PER_LOG = 1 << 48
"""How far consume sequences of a broker group's next log are shifted in the rows of a stream that has option
`logs`; see `source.offsets`."""
