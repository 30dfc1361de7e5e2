"""What admin pages show of the properties of a message. All pages of all nodes with contents of messages use it."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from qmq.protocol.masking import NO_MASKS, Masks
from qmq_node.admin.server import BadRequest, Params

PARAMETER = "masks"


def masks_of(params: Params) -> Masks:
    """Return the masking rules of a request; none without the parameter. Raises BadRequest."""
    try:
        return Masks.decode(params.text(PARAMETER)) if params.has(PARAMETER) else NO_MASKS
    except ValueError as error:
        raise BadRequest(400, "parameter.wrong", f"{PARAMETER} {error}") from error


def shown_properties(properties: Mapping[str, str], masks: Masks) -> dict[str, Any]:
    """Return the fields `properties`, `masked` and `decoding` of a message.

    Takes up to a second for large bodies; for any thread.
    """
    shown, marks, decoding = masks.apply(properties)
    fields: dict[str, Any] = {"properties": shown, "masked": [asdict(mark) for mark in marks]}
    return fields if decoding is None else fields | {"decoding": asdict(decoding)}
