"""The names that tests of faults still use for `tests.support.system.System`."""

from pathlib import Path
from typing import Any

from tests.support.system import Answer, System

__all__ = ["Answer", "ControlPlane"]


class ControlPlane(System):
    """A system with its control plane; `system` is itself."""

    def __init__(self, folder: Path, **parts: Any) -> None:
        super().__init__(folder, **{"console": True, "workers": 1, "beats": 1, **parts})

    @property
    def system(self) -> System:
        return self
