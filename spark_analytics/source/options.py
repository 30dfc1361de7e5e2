"""The options of `spark.read.format("qmq")`, checked once."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from qmq.errors import SettingError
from qmq.net.discovery import meta_urls
from spark_analytics.schemas import SCHEMAS
from spark_analytics.source.offset_files import OFFSETS_KEPT
from spark_analytics.source.partitions import ROWS_PER_PARTITION, ROWS_PER_PARTITION_OF_MESSAGES
from spark_analytics.source.selection import HIGHEST, LOWEST, Selection, Span, parse_names, parse_time

ROWS_PER_BATCH = 5_000_000
"""Rows of one batch of a stream by default."""
ROWS_PER_CORE = 2_500_000
"""Rows of one batch for each core of the session, where a stream's batches follow the cores."""
ROWS_MAX = 1 << 40

OPTIONS = {
    "metaserver": "host:port or URL of a metaserver, several separated by commas; required",
    "token": "the read_token of nodes and metaserver, if they have one",
    "table": f"one of {', '.join(SCHEMAS)}; required",
    "columns": "comma-separated list of columns; default: all. An explicit schema has the same effect",
    "broker_groups": "comma-separated list of names, * and ? as wildcards",
    "subjects": "the same for subjects; for `retries` and `dead_letters`, the original subjects",
    "groups": "the same for consumer groups",
    "from": "ISO time of the earliest row; without a zone it is UTC",
    "to": "ISO time before which all rows are",
    "on_gap": "error, or record: data that is no longer available is recorded in the folder of option `holes`",
    "holes": "folder or URI that driver and executors can reach; table `holes` reads it",
    "logs": "for streams, a JSON object: broker group -> list of the IDs of its logs, oldest first."
    " With it the stream detects broker groups that were started with an empty folder",
    "listings": "for streams, a file with what nodes hold, which several streams share; default: nodes are asked",
    "offsets": "for streams, a folder or URI of the stream alone, which the driver can reach, for offsets of very many ranges;"
    " it belongs to the checkpoint, and is deleted with it",
    "offsets_kept": "number of offsets that Spark keeps, as in spark.sql.streaming.minBatchesToRetain",
    "rows_per_partition": "approximate number of rows per task",
    "rows_per_batch": "maximum number of rows per batch of a stream",
}
STREAMED = ("index", "progress", "messages", "retries", "dead_letters")
"""Tables that can be streams."""
OF_MESSAGES = ("messages", "retries", "dead_letters")

TIME_COLUMNS = dict.fromkeys(STREAMED, "stored_at") | {"progress": "at", "delayed": "due_at"}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of a read. `selection` is what they select."""

    table: str
    metaserver: str
    token: str
    columns: tuple[str, ...]
    selection: Selection
    on_gap: Literal["error", "record"]
    holes: str
    offsets: str
    offsets_kept: int
    rows_per_partition: int
    rows_per_batch: int
    logs: Mapping[str, Sequence[str]]
    listings: str = ""


def parse_options(given: Mapping[str, str]) -> ReadOptions:
    """The options as values.

    Raises:
        SettingError: one is missing, unknown or wrong.
    """
    options = {name.lower(): value for name, value in given.items()}
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        raise SettingError(f"format qmq has no option {', '.join(unknown)}; there are {', '.join(OPTIONS)}")
    table = options.get("table", "")
    if table not in SCHEMAS:
        raise SettingError(f"option table is {table!r}; must be one of {', '.join(SCHEMAS)}")
    metaserver = options.get("metaserver", "")
    if table != "holes":
        if not metaserver:
            raise SettingError("option metaserver is missing: specify host:port or URL of a metaserver")
        metaserver = ",".join(meta_urls(metaserver))
    on_gap = options.get("on_gap", "error")
    if on_gap not in ("error", "record"):
        raise SettingError(f"option on_gap is {on_gap!r}; must be error or record")
    holes = options.get("holes", "")
    if not holes and (table == "holes" or on_gap == "record"):
        raise SettingError("option holes is missing: specify a folder or URI in which gaps are recorded")
    by_default = ROWS_PER_PARTITION_OF_MESSAGES if table in OF_MESSAGES else ROWS_PER_PARTITION
    return ReadOptions(
        table=table,
        metaserver=metaserver,
        token=options.get("token", ""),
        columns=_columns(table, options.get("columns", "")),
        selection=_selection(options),
        on_gap="record" if on_gap == "record" else "error",
        holes=holes,
        offsets=options.get("offsets", ""),
        offsets_kept=_count(options, "offsets_kept", OFFSETS_KEPT),
        rows_per_partition=_count(options, "rows_per_partition", by_default),
        rows_per_batch=_count(options, "rows_per_batch", ROWS_PER_BATCH),
        logs=_logs(options.get("logs", "")),
        listings=options.get("listings", ""),
    )


def rows_per_batch(setting: int, cores: int) -> int:
    """Maximum rows of a batch: a setting, or where that is 0, ROWS_PER_CORE for each core."""
    return setting or ROWS_PER_CORE * max(1, cores)


def _logs(text: str) -> dict[str, tuple[str, ...]]:
    try:
        return {str(name): tuple(map(str, found)) for name, found in json.loads(text or "{}").items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise SettingError(f"option logs is {text[:80]!r}; must be a JSON object of lists of texts: {error}") from error


def _selection(options: Mapping[str, str]) -> Selection:
    times = Span(
        parse_time(options["from"], "option from") if options.get("from") else LOWEST,
        parse_time(options["to"], "option to") if options.get("to") else HIGHEST,
    )
    if times.is_empty:
        raise SettingError(f"option from ({options['from']}) is not before option to ({options['to']})")
    broker_groups, subjects, groups = (
        parse_names(options.get(name, "")) for name in ("broker_groups", "subjects", "groups")
    )
    return Selection(broker_groups, subjects, groups, times)


def _columns(table: str, text: str) -> tuple[str, ...]:
    known = SCHEMAS[table].names
    wanted = [part for part in (piece.strip() for piece in text.split(",")) if part]
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        raise SettingError(f"table {table} has no column {', '.join(unknown)}; it has {', '.join(known)}")
    return tuple(name for name in known if name in wanted) if wanted else tuple(known)


def _count(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name, "")
    if not text:
        return default
    if not text.isdecimal() or not 1 <= int(text) <= ROWS_MAX:
        raise SettingError(f"option {name} is {text[:40]!r}; must be a whole number from 1 to {ROWS_MAX}")
    return int(text)
