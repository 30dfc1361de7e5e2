"""Errors as people are told of them."""

import pytest

from spark_analytics.jobs.reasons import REASON_CHARS_MAX, reason

FROM_A_WORKER = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [PYTHON_STREAMING_DATA_SOURCE] Failed
 when Python streaming data source perform latestOffset: Traceback (most recent call last):
  File "worker.py", line 12, in main
    offset = reader.latestOffset()
             ^^^^^^^^^^^^^^^^^^^^^
  File "reading.py", line 300, in call
    raise ConnectionLost(text)
qmq.errors.ConnectionLost: g2 at 127.0.0.1:20883 can't be reached: Connection refused

\tat org.apache.spark.sql.execution.python.streaming.Runner.run(Runner.scala:10)
"""
CHAINED = """Traceback (most recent call last):
  File "a.py", line 1, in <module>
ConnectionRefusedError: [Errno 111] Connection refused

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "b.py", line 2, in <module>
qmq.errors.ConnectionLost: g1 can't be reached
"""
FROM_JAVA = "An error occurred while calling o5.load.\n: org.apache.spark.SparkException: [GONE] no such file\n\tat a.B.c(B.java:1)"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no luck", "no luck"),
        ("", "ValueError"),
        (FROM_A_WORKER, "ConnectionLost: g2 at 127.0.0.1:20883 can't be reached: Connection refused"),
        (CHAINED, "ConnectionLost: g1 can't be reached"),
        (FROM_JAVA, "org.apache.spark.SparkException: [GONE] no such file"),
        ("[A] one line\nJVM stacktrace:\n\tat a.B", "[A] one line"),
        ("x" * 2000, "x" * REASON_CHARS_MAX),
    ],
)
def test_the_cause_is_told_without_the_stacks_around_it(text: str, said: str) -> None:
    assert reason(ValueError(text)) == said
