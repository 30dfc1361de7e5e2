"""The last known metadata as a file, so that a metaserver that starts without its database goes on."""

import json
import os
from dataclasses import asdict
from typing import Any

from metaserver.choices import GroupKind, GroupState, OperatorState, Phase
from metaserver.snapshot import BrokerGroup, Metadata, Node, Route, SubjectRule


def save(path: str, metadata: Metadata) -> None:
    """Replace the file atomically."""
    content = {
        "broker_groups": [asdict(group) for group in metadata.broker_groups],
        "nodes": [asdict(node) for node in metadata.nodes],
        "routes": [asdict(route) for route in metadata.routes],
        "rules": {subject: asdict(rule) for subject, rule in metadata.rules.items()},
        "paused": sorted(metadata.paused),
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
                    "operator_state": OperatorState(group.get("operator_state", OperatorState.NORMAL)),
                }
            )
            for group in content["broker_groups"]
        )
        nodes = tuple(Node(**node) for node in content["nodes"])
        routes = tuple(
            Route(
                **{
                    **route,
                    "broker_groups": tuple(route["broker_groups"]),
                    "phases": {name: Phase(phase) for name, phase in route.get("phases", {}).items()},
                }
            )
            for route in content["routes"]
        )
        rules = {subject: _rule(rule) for subject, rule in content.get("rules", {}).items()}
        paused = frozenset((subject, group, consumer) for subject, group, consumer in content.get("paused", ()))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Metadata(groups, nodes, routes, rules, paused)


def _rule(fields: dict[str, Any]) -> SubjectRule:
    allowed = fields.get("allowed_groups")
    return SubjectRule(**{**fields, "allowed_groups": None if allowed is None else tuple(allowed)})
