"""The body of an edited copy, in the form that it has in the stored message: its format, content type and encoding."""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from metaserver.errors import ChangeRefused
from qmq.client.bodies import KEY_DATA
from qmq.errors import BodyUndecodable
from qmq.formats import BodyFormat, Unencodable, encode
from qmq.protocol.content_encoding import ENCODING_BASE64, content_bytes
from qmq.protocol.masking import Masks
from qmq.protocol.messages import KEY_CONTENT_ENCODING, KEY_CONTENT_TYPE, get_large_string, set_large_string

FORM_KEYS = frozenset({KEY_CONTENT_TYPE, KEY_CONTENT_ENCODING})
"""Of the protocol's properties, those that describe the body."""


def as_stored(
    edited: Mapping[str, str], stored: Mapping[str, Any], body_format: BodyFormat | None
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the properties of an edited copy, and those of FORM_KEYS. A body that was not changed keeps its bytes.

    Args:
        edited: what a user made of the properties that the console shows, without those of the protocol.
        stored: the message, as its node returns it without masks.
        body_format: of its subject.

    Raises:
        ChangeRefused: the message can't be read, or the edited body has no such form.
    """
    before: Mapping[str, str] | None = stored.get("properties")
    if before is None:
        raise _refused(f"the message can't be read: {stored.get('reason', '')}")
    properties = {
        key: text for key, text in edited.items() if key != KEY_DATA and not key.startswith(f"{KEY_DATA}#part")
    }
    text = get_large_string(edited, KEY_DATA)
    if text is None:
        return properties, {}
    form = {key: before[key] for key in FORM_KEYS if key in before}
    if KEY_CONTENT_ENCODING in form:
        text, form[KEY_CONTENT_ENCODING] = _encoded(text, before, form[KEY_CONTENT_ENCODING], body_format)
    set_large_string(properties, KEY_DATA, text)
    return properties, form


def _encoded(text: str, before: Mapping[str, str], encoding: str, body_format: BodyFormat | None) -> tuple[str, str]:
    """An edited body as property `data` has it, and its encoding."""
    stored = get_large_string(before, KEY_DATA) or ""
    shown, _, decoding = Masks(body_format=body_format).apply(before)
    if text in (stored, shown.get(KEY_DATA)):
        return stored, encoding
    if body_format is not None and decoding is not None and decoding.problem is None:
        try:
            data = encode(body_format, text, content_bytes(stored, encoding))
        except Unencodable as error:
            raise _refused(f"{error} (the copy is encoded as {body_format.name} again)") from error
        return b64encode(data).decode("ascii"), ENCODING_BASE64
    try:
        content_bytes(text, encoding)
    except BodyUndecodable as error:
        why = f", and can't be decoded as {decoding.format} here: {decoding.problem}" if decoding is not None else ""
        raise _refused(f"{error}. The body of the message is {encoding}{why}") from error
    return text, encoding


def _refused(why: str) -> ChangeRefused:
    return ChangeRefused(f"data: {why}", code="message.invalid", fields={"properties": f"data: {why}"})
