"""The client library; import its names from `qmq`."""
