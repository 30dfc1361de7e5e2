"""What streams into the lake are started with."""

from unittest.mock import MagicMock

from spark_analytics.lake.delta import Snapshot
from spark_analytics.lake.ingestion import OFFSETS_KEPT, Ingested, _start


def test_files_of_offsets_are_a_part_of_the_checkpoint_and_as_many_as_spark_keeps() -> None:
    lake = MagicMock(root="file:///lake")
    lake.checkpoint = "_checkpoints/{}".format
    lake.watermark_ms.return_value = None
    lake.snapshot.return_value = Snapshot()
    lake.now_ms.return_value = 0
    lake.spark.conf.get = {OFFSETS_KEPT: "10"}.__getitem__
    _start(lake, "index", {}, "qmq", Ingested(), [], print)
    given = [call.args for call in lake.mock_calls if call[0].endswith(".option")]
    assert ("offsets", "file:///lake/_checkpoints/index/ranges") in given
    assert ("offsets_kept", "10") in given
    assert ("checkpointLocation", "file:///lake/_checkpoints/index") in given
