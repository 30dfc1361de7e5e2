"""Requests of the alerts' API."""

from typing import Any

from rest_framework.test import APIClient

API = "/api/v1"


RULE = {"name": "lag", "kind": "lag", "threshold": 100, "severity": "critical"}


def made(client: APIClient, path: str, body: dict[str, Any]) -> str:
    """POST; the id of what was made."""
    answer = client.post(f"{API}/{path}/", body)
    assert answer.status_code == 201, answer.json()
    return str(answer.json()["target"])


def problem(answer: Any, status: int, code: str) -> dict[str, Any]:
    """The answer is this problem."""
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.json()
    assert answer["Content-Type"] == "application/problem+json"
    return dict(answer.json())
