"""The lake: what was read from nodes, as Parquet, where jobs find it again. Nothing here knows of Django."""

from spark_analytics.lake.files import LakeBusy, LakeError
from spark_analytics.lake.lake import Lake

__all__ = ["Lake", "LakeBusy", "LakeError"]
