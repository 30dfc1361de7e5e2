"""A lake that numbered broker groups by the data folders of their members is not continued."""

from pathlib import Path

import pytest

from spark_analytics.lake.files import LakeError, LocalFiles
from spark_analytics.lake.node_logs import add_logs, known_logs


def test_a_lake_that_may_have_counted_twice_says_what_to_do(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path / "lake")
    files.create("_incarnations/0000000001.json", b'{"broker_group": "g1", "incarnation": "a"}')
    with pytest.raises(LakeError, match="move the lake's folder away"):
        known_logs(files)
    with pytest.raises(LakeError, match="counted messages twice"):
        add_logs(files, {"g1": "a"})
    assert files.names("_node_logs") == []
