"""Errors that a delay node answers with."""

from qmq.errors import QmqError


class LimitReached(QmqError):
    """A named limit of the node; the message contains its value."""

    code = "delay.limit_reached"


class BadQuery(QmqError):
    """A query or change with an invalid value; the message names the value and what is valid."""

    code = "delay.bad_query"
