"""Errors as application/problem+json (RFC 9457), of the API and of what answers before it."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from django.http import JsonResponse

from console.http.requests import current_id

MEDIA_TYPE = "application/problem+json"
_TITLES = {413: "Content Too Large", 422: "Unprocessable Content"}
"""Statuses that older Pythons have other phrases for."""


def problem(
    status: int, code: str, detail: str, fields: Mapping[str, Any] | None = None, request_id: str = ""
) -> dict[str, Any]:
    """The body; `request_id` is by default the present request's."""
    return {
        "type": f"urn:qmq:problem:{code}",
        "title": _TITLES.get(status) or HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        "detail": detail,
        "fields": fields or {},
        "request_id": request_id or current_id.get(),
    }


def problem_response(status: int, code: str, detail: str, headers: Mapping[str, str] | None = None) -> JsonResponse:
    """The answer of what is no view of the API."""
    return JsonResponse(problem(status, code, detail), status=status, headers=headers, content_type=MEDIA_TYPE)
