"""What every operation takes, as api/openapi.yaml describes it. A request with anything else is rejected: an ignored misspelling of
`dry_run` or of a filter would change more than was requested.
"""

import functools
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from django.http import QueryDict
from rest_framework.request import Request

from api.problems import Problem
from qmq.words import nearest

FILE = Path(__file__).resolve().parent / "openapi.yaml"
NAME_CHARS_SHOWN_MAX = 60
UNKNOWN_SHOWN_MAX = 20
"""Unknown fields or parameters that an error names; it counts the others."""
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CONVERTER = re.compile(r"<(?:\w+:)?(\w+)>")
"""An argument in a URL pattern of Django."""


@dataclass(frozen=True, slots=True)
class Operation:
    """The inputs of an operation."""

    parameters: Mapping[str, bool]
    """Its query parameters; true: it can be repeated."""
    body: Mapping[str, Any]
    """The JSON schema of its body, references resolved; empty: it has none."""

    def check_parameters(self, query: QueryDict) -> None:
        """Raise Problem 400 for an unknown query parameter, and for a repeated one that is no list."""
        unknown = [name for name in query if name not in self.parameters]
        if unknown:
            raise _unknown("parameter", dict.fromkeys(unknown, self.parameters))
        repeated = [name for name in query if not self.parameters[name] and len(query.getlist(name)) > 1]
        if repeated:
            what = f"{repeated[0]}: is given {len(query.getlist(repeated[0]))} times; specify it once"
            raise Problem(400, "request.repeated_parameter", what, dict.fromkeys(repeated, "must be given once"))

    def check_body(self, body: Mapping[str, Any]) -> None:
        """Raise Problem 400 for a body with unknown fields, nested ones included."""
        unknown = dict(_unknown_fields(self.body, body, ""))
        if unknown:
            raise _unknown("field", unknown)


def check_inputs(request: Request, *, with_body: bool = True) -> None:
    """Raise Problem 400 for a query parameter, or `with_body` a field of the body, that the operation does not have."""
    operation = _operation_of(request)
    operation.check_parameters(request.query_params)
    if request.method in ("GET", "HEAD") or not with_body:
        return
    if not isinstance(request.data, dict):
        raise Problem(400, "request.invalid", "The request body must be a JSON object.")
    operation.check_body(request.data)


def _operation_of(request: Request) -> Operation:
    """Return the operation that a request names by method and path."""
    assert request.resolver_match is not None
    method = "GET" if request.method == "HEAD" else str(request.method)
    path = _CONVERTER.sub(r"{\1}", f"/{request.resolver_match.route}")
    return _operations()[method, path]


@functools.cache
def _operations() -> Mapping[tuple[str, str], Operation]:
    """The operations of the file by method and path."""
    document = yaml.load(FILE.read_bytes(), _LOADER)

    def resolved(value: Any) -> Any:
        if isinstance(value, list):
            return [resolved(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "$ref" in value:
            found = document
            for part in value["$ref"].removeprefix("#/").split("/"):
                found = found[part]
            return resolved(found)
        return {key: resolved(item) for key, item in value.items()}

    found = {}
    for path, methods in document["paths"].items():
        for method, description in methods.items():
            parameters = [resolved(parameter) for parameter in description.get("parameters", ())]
            repeatable = {p["name"]: p["schema"].get("type") == "array" for p in parameters if p["in"] == "query"}
            content = description.get("requestBody", {}).get("content", {})
            body = resolved(content["application/json"]["schema"]) if content else {}
            found[method.upper(), path] = Operation(repeatable, body)
    return found


def _unknown_fields(schema: Mapping[str, Any], value: Any, path: str) -> Iterator[tuple[str, Collection[str]]]:
    """Yield the dotted names of unknown fields, each with the known ones of its place."""
    for part in (*schema.get("allOf", ()), *schema.get("oneOf", ()), *schema.get("anyOf", ())):
        yield from _unknown_fields(part, value, path)
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unknown_fields(schema.get("items", {}), item, f"{path}{index}.")
    if not isinstance(value, dict):
        return
    known, rest = schema.get("properties", {}), schema.get("additionalProperties", True)
    for name, item in value.items():
        if name in known:
            yield from _unknown_fields(known[name], item, f"{path}{name}.")
        elif rest is False:
            yield f"{path}{name}", known
        elif isinstance(rest, dict):
            yield from _unknown_fields(rest, item, f"{path}{name}.")


def _unknown(kind: str, unknown: Mapping[str, Collection[str]]) -> Problem:
    """The problem that names unknown fields or parameters, with the nearest known name, or else all known ones."""
    fields = {}
    for path, known in list(unknown.items())[:UNKNOWN_SHOWN_MAX]:
        advice = nearest(path.rpartition(".")[2][:NAME_CHARS_SHOWN_MAX], known)
        fields[path[:NAME_CHARS_SHOWN_MAX]] = f"unknown {kind}; {advice}"
    text = " ".join(f"{name!r}: {what}." if what[-1] != "?" else f"{name!r}: {what}" for name, what in fields.items())
    if (more := len(unknown) - UNKNOWN_SHOWN_MAX) > 0:
        text += f" And {more} more."
    return Problem(400, f"request.unknown_{kind}", text, fields)
