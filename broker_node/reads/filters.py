"""Tag filters: first by the digest in the consume log, then by the tags in the message. Pure.

Rules of QMQ (`reference` 5.1): a message without tags matches no filter. OR: one tag in common. AND: every tag asked for is
on the message. A NO_TAG filter, or one without tags, filters nothing. Comparison is on bytes, case sensitive.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from qmq.protocol.codes import TagType
from qmq.protocol.commands import SubEnvFilter, TagFilter
from qmq.protocol.raw import RawBytes, tags_of
from qmq.protocol.scan import tag_digest


@dataclass(frozen=True, slots=True)
class TagMatch:
    """A filter ready to be asked for many messages."""

    tags: frozenset[bytes]
    all_of: bool
    bits: int

    def matches(self, raw: RawBytes) -> bool:
        """Whether a raw message's own tags match."""
        tags = frozenset(tags_of(raw))
        return bool(tags) and (self.tags <= tags if self.all_of else not self.tags.isdisjoint(tags))


def tag_match(filters: Sequence[TagFilter | SubEnvFilter]) -> TagMatch | None:
    """The tag filter of a pull, or None when it lets everything through.

    The sub-environment filter is ignored, which equals QMQ's default (the feature is off there).
    """
    item = tag_filter(filters)
    if item is None:
        return None
    tags = [tag.encode() for tag in item.tags]
    return TagMatch(frozenset(tags), item.tag_type == TagType.AND, tag_digest(tags))


def tag_filter(filters: Sequence[TagFilter | SubEnvFilter]) -> TagFilter | None:
    """The filter of a pull that counts, or None when all messages match."""
    for item in filters:
        if isinstance(item, TagFilter) and item.tag_type != TagType.NO_TAG and item.tags:
            return item
    return None
