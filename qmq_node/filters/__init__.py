"""The filter language: what a stored message must be like, in CEL or in plain words (docs/reference/filters.md).

`compile_filter` checks a text and returns a `Filter`; `Content` has the values of a message that filters can name. `needs`
derives from a filter what the bytes of each matching message contain, so that a search reads few messages whole.
"""

from qmq_node.filters.content import Content
from qmq_node.filters.language import FILTER_CHARS_MAX, Filter, FilterError, TooCostly, compile_filter, compile_filters

__all__ = [
    "FILTER_CHARS_MAX",
    "Content",
    "Filter",
    "FilterError",
    "TooCostly",
    "compile_filter",
    "compile_filters",
]
