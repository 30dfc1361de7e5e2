"""Analytics on Spark: the data source `qmq`, pure transforms, and the jobs that fill the console's summary tables.

Importing this package needs nothing; its modules need the extra `analytics` (PySpark, pyarrow, numpy), and `jobs` a checkout.
"""
