"""Bodies of requests: JSON, bounded in size, with text that can be stored."""

import json
from typing import Any

from django.conf import settings
from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser

from api.problems import Problem
from metaserver.services.changes import text_problem


class BoundedJsonParser(JSONParser):
    """application/json. Django's own limit does not hold for bodies that are read as a stream."""

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        data = read_bounded(stream, settings.DATA_UPLOAD_MAX_MEMORY_SIZE, parser_context)
        try:
            found = json.loads(data.decode(), parse_constant=_no_number)
        except RecursionError as error:
            raise ParseError("The JSON can't be parsed: it is nested too deeply.") from error
        except ValueError as error:
            raise ParseError(f"The JSON can't be parsed: {str(error)[:200]}") from error
        check_text(found)
        return found


def read_bounded(stream: Any, most: int, parser_context: Any) -> bytes:
    """Return a body of at most this number of bytes.

    Raises:
        Problem: 413 for a larger one; one that says its length is not read.
    """
    request = (parser_context or {}).get("request")
    content_length = "" if request is None else str(request.META.get("CONTENT_LENGTH") or "")
    is_too_large = content_length.isdigit() and int(content_length) > most
    data: bytes = b"" if is_too_large else stream.read(most + 1)
    if is_too_large or len(data) > most:
        raise Problem(413, "request.too_large", f"The request body exceeds the limit of {most} bytes.")
    return data


def check_text(value: Any) -> None:
    """Raises ParseError for text that no database takes (NUL, half a surrogate pair), wherever it stands."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            problem = text_problem(item)
            if problem:
                raise ParseError(f"{item[:40]!r}: {problem}")
        elif isinstance(item, dict):
            waiting += item.keys()
            waiting += item.values()
        elif isinstance(item, list | tuple | set):
            waiting += item


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is not a valid JSON number")
