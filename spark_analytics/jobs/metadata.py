"""What jobs need of the metadata. It is small: the driver reads it once and hands it in as a frame."""

from pyspark.sql import DataFrame, SparkSession

from metaserver import queries
from spark_analytics.local_rows import local_frame
from spark_analytics.transforms.frames import OWNERS


def owners(spark: SparkSession) -> DataFrame:
    """Return each subject and its current owner (OWNERS); an empty team means no owner."""
    found = queries.subjects().order_by().values_list("name", "owner__name")
    rows = [(str(subject), str(team or "")) for subject, team in found]
    return local_frame(spark, rows, OWNERS)
