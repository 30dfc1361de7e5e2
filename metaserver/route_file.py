"""The last known metadata as a file, so that a metaserver that starts without its database goes on."""

import json
import os
from dataclasses import asdict

from metaserver.choices import GroupKind, GroupState
from metaserver.snapshot import BrokerGroup, Metadata, Node, Route


def save(path: str, metadata: Metadata) -> None:
    """Replace the file atomically."""
    content = {
        "broker_groups": [asdict(group) for group in metadata.broker_groups],
        "nodes": [asdict(node) for node in metadata.nodes],
        "routes": [asdict(route) for route in metadata.routes],
    }
    temporary = f"{path}.tmp"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def load(path: str) -> Metadata | None:
    """What the file holds; None when there is none or it can't be read."""
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        groups = tuple(
            BrokerGroup(
                **{
                    **group,
                    "kind": GroupKind(group["kind"]),
                    "state": GroupState(group["state"]),
                    "in_sync": tuple(group["in_sync"]),
                }
            )
            for group in content["broker_groups"]
        )
        nodes = tuple(Node(**node) for node in content["nodes"])
        routes = tuple(
            Route(**{**route, "broker_groups": tuple(route["broker_groups"])}) for route in content["routes"]
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Metadata(groups, nodes, routes)
