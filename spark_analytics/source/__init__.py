"""The Spark data source `qmq`: plan ranges in the driver, stream their raw bytes in executors, decode them with numpy."""
