"""The logs of broker groups that were read, in their order: `LAKE/_node_logs/NUMBER.json`.

All members of a group have the same one; a group that begins again with an empty log has another one. Streams of all
tables have to number them alike (`source.offsets`), so the lake keeps the list; one file for each, which is never
changed.
"""

import json
from collections.abc import Mapping

from spark_analytics.lake.files import LakeError, LakeFiles

FOLDER = "_node_logs"
_DIGITS = 10


def known_logs(files: LakeFiles) -> dict[str, list[str]]:
    """Broker group -> the IDs of its logs, the oldest first.

    Raises:
        LakeError: a file can't be read.
    """
    found: dict[str, list[str]] = {}
    for number in _numbers(files):
        path = f"{FOLDER}/{number:0{_DIGITS}}.json"
        try:
            content = json.loads(files.read(path))
            found.setdefault(str(content["broker_group"]), []).append(str(content["log_id"]))
        except (FileNotFoundError, ValueError, KeyError, TypeError) as error:
            raise LakeError(f"{path} can't be read: {error}") from error
    return found


def add_logs(files: LakeFiles, read: Mapping[str, str]) -> dict[str, list[str]]:
    """All known logs with those that broker groups have now; nodes that report none ("") are left out.

    Raises:
        LakeError: as `known_logs`.
        FileExistsError: another process has added one meanwhile.
    """
    known = known_logs(files)
    number = max(_numbers(files), default=0)
    for broker_group, log_id in sorted(read.items()):
        if log_id and log_id not in known.get(broker_group, ()):
            number += 1
            content = {"broker_group": broker_group, "log_id": log_id}
            files.create(f"{FOLDER}/{number:0{_DIGITS}}.json", json.dumps(content).encode())
            known.setdefault(broker_group, []).append(log_id)
    return known


def _numbers(files: LakeFiles) -> list[int]:
    names = (name.removesuffix(".json") for name in files.names(FOLDER) if name.endswith(".json"))
    return sorted(int(name) for name in names if name.isdigit())
