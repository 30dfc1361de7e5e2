"""Formats of bodies: how bytes of a body become JSON, for display, filters and masks, and how an edited body becomes bytes again.

A format is a plug-in (`Plugin`): msgpack and Avro are here, others come from packages that are installed beside nodes and console
(docs/how-to/body-formats.md). `decode` bounds what any of them returns.
"""

from qmq.formats.decoding import decode as decode
from qmq.formats.decoding import format_problem as format_problem
from qmq.formats.encoding import encode as encode
from qmq.formats.plugins import BODY_BYTES_MAX as BODY_BYTES_MAX
from qmq.formats.plugins import FORMAT_JSON as FORMAT_JSON
from qmq.formats.plugins import SCHEMA_CHARS_MAX as SCHEMA_CHARS_MAX
from qmq.formats.plugins import BodyFormat as BodyFormat
from qmq.formats.plugins import Plugin as Plugin
from qmq.formats.values import Pairs as Pairs
from qmq.formats.values import SchemaError as SchemaError
from qmq.formats.values import Undecodable as Undecodable
from qmq.formats.values import Unencodable as Unencodable
