"""The incarnations of broker groups' data folders that were read, in their order: `LAKE/_incarnations/NUMBER.json`.

A broker group that is started with an empty folder begins another one. Streams of all tables have to number them alike
(`source.offsets`), so the lake keeps the list; one file for each, which is never changed.
"""

import json
from collections.abc import Mapping

from spark_analytics.lake.files import LakeError, LakeFiles

FOLDER = "_incarnations"
_DIGITS = 10


def known_incarnations(files: LakeFiles) -> dict[str, list[str]]:
    """Broker group -> its incarnations, the oldest first.

    Raises:
        LakeError: a file can't be read.
    """
    found: dict[str, list[str]] = {}
    for number in _numbers(files):
        path = f"{FOLDER}/{number:0{_DIGITS}}.json"
        try:
            content = json.loads(files.read(path))
            found.setdefault(str(content["broker_group"]), []).append(str(content["incarnation"]))
        except (FileNotFoundError, ValueError, KeyError, TypeError) as error:
            raise LakeError(f"{path} can't be read: {error}") from error
    return found


def add_incarnations(files: LakeFiles, read: Mapping[str, str]) -> dict[str, list[str]]:
    """All known incarnations with those that broker groups have now; nodes that report none ("") are left out.

    Raises:
        LakeError: a file can't be read.
        FileExistsError: another process has added one meanwhile.
    """
    known = known_incarnations(files)
    number = max(_numbers(files), default=0)
    for broker_group, incarnation in sorted(read.items()):
        if incarnation and incarnation not in known.get(broker_group, ()):
            number += 1
            content = {"broker_group": broker_group, "incarnation": incarnation}
            files.create(f"{FOLDER}/{number:0{_DIGITS}}.json", json.dumps(content).encode())
            known.setdefault(broker_group, []).append(incarnation)
    return known


def _numbers(files: LakeFiles) -> list[int]:
    names = (name.removesuffix(".json") for name in files.names(FOLDER) if name.endswith(".json"))
    return sorted(int(name) for name in names if name.isdigit())
