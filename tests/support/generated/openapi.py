"""The committed OpenAPI file as tests read it."""

from pathlib import Path
from typing import Any

import yaml

from tests.support.servers.processes import PROJECT

OPENAPI = Path(PROJECT) / "api/openapi.yaml"


def openapi_document() -> dict[str, Any]:
    """Return the file with the parameters that operations share written out in each: a copy may be changed alone."""
    document: dict[str, Any] = yaml.safe_load(OPENAPI.read_text())
    shared = document["components"]["parameters"]
    for methods in document["paths"].values():
        for operation in methods.values():
            parameters = operation.get("parameters", [])
            parameters[:] = [
                dict(shared[each["$ref"].rpartition("/")[2]]) if "$ref" in each else each for each in parameters
            ]
    return document
