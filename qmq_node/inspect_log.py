"""`qmq log inspect FOLDER`: what is in a log, is it whole? Reads only; from the engine's own decoder."""

import os
from collections import Counter

from qmq.cli.output import say, say_json
from qmq.errors import SettingError
from qmq.words import counted
from qmq_node.log.disk import SystemDisk
from qmq_node.log.record import EPOCH_KIND, decode_epoch, iter_records
from qmq_node.log.recovery import Commit, Walker
from qmq_node.log.segment import Segments


def inspect(folder: str, *, as_json: bool) -> int:
    """Print what a folder of segments contains; 0 when the log is whole, 1 when it is damaged. Raises SettingError."""
    if not os.path.isdir(folder):
        raise SettingError(f"{folder} is not a folder")
    segments = Segments(SystemDisk(), folder)
    if not segments.infos():
        raise SettingError(f"{folder} contains no segments; specify the `log` folder inside the data folder of a node")
    kinds: Counter[int] = Counter()
    promotions: dict[int, str] = {}
    commits = 0

    def visit(commit: Commit) -> None:
        nonlocal commits
        commits += 1
        for _, kind, payload in iter_records(commit.body, commit.body_offset):
            kinds[kind] += 1
            if kind == EPOCH_KIND:
                promotions.update((decode_epoch(payload),))

    walked = Walker(segments, visit).walk(None)
    answer = {
        "segments": [{"base": info.base, "bytes": info.bytes} for info in segments.infos()],
        "commits": commits,
        "records_by_kind": {str(kind): count for kind, count in sorted(kinds.items())},
        "begin": segments.infos()[0].base,
        "end": walked.position.offset,
        "synced_to": walked.synced_to,
        "epochs": [
            {"epoch": epoch, "begin": begin, "promotion_id": promotions.get(epoch, "")}
            for epoch, begin in walked.epochs
        ],
        "torn_at": walked.torn_at,
        "damaged": [{"begin": d.begin, "end": d.end, "why": d.why} for d in walked.damaged],
    }
    if as_json:
        say_json(answer, indent=2)
    else:
        say(f"{counted(len(segments.infos()), 'segment')}, offsets {answer['begin']} to {answer['end']}")
        say(
            f"{counted(commits, 'commit')}, records by kind {answer['records_by_kind']}, known synced to {walked.synced_to}"
        )
        say("epochs: " + (", ".join(f"{epoch} from {begin} on" for epoch, begin in walked.epochs) or "none"))
        for damage in walked.damaged:
            say(f"CORRUPTED from {damage.begin} to {damage.end}: {damage.why}")
        if not walked.damaged:
            say("whole")
    return 1 if walked.damaged else 0
