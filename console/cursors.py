"""Cursors: where a list continues, as text for an address.

A cursor is signed with its query as the salt: its values are those that the API returned, and only the same query accepts it.
"""

import json
from typing import Any

from django.core import signing

from metaserver.errors import ChangeRefused


def _signer(query: tuple[object, ...]) -> signing.Signer:
    return signing.Signer(salt=f"cursor {json.dumps(query, sort_keys=True, default=str)}")


def encode_cursor(query: tuple[object, ...], place: Any) -> str:
    """Return the cursor of a place (JSON values) in the results of a query."""
    return _signer(query).sign_object(place, compress=True)


def decode_cursor(text: str, query: tuple[object, ...]) -> Any:
    """Return the place that `encode_cursor` was called with.

    Raises:
        ChangeRefused: the text is no cursor of this query.
    """
    try:
        return _signer(query).unsign_object(text)
    except (signing.BadSignature, UnicodeEncodeError) as error:
        what = "is not a cursor of this query; omit it to start again"
        raise ChangeRefused(f"cursor: {what}", code="request.cursor_illegal", fields={"cursor": what}) from error
