"""What happens to a test when a program that it needs is not installed."""

import os
from typing import NoReturn

import pytest


def is_ci() -> bool:
    """Return whether this is a CI run: the environment variable CI is set."""
    return bool(os.environ.get("CI"))


def missing(reason: str, *, is_required: bool = False) -> NoReturn:
    """Skip the test, or fail it when the program is required or this is a CI run."""
    if is_required or is_ci():
        why = "this run requires it" if is_required else "CI is set, so every program is required"
        pytest.fail(f"{reason} ({why}; docs/testing.md, Required programs)")
    pytest.skip(reason)
