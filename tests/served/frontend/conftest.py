"""A small build to serve."""

from pathlib import Path
from typing import Any

import pytest

from tests.served.frontend.builds import put_build


@pytest.fixture
def build(tmp_path: Path, settings: Any) -> Path:
    """The folder of a build that is served."""
    settings.FRONTEND_DIR = put_build(tmp_path / "dist")
    return tmp_path / "dist"
