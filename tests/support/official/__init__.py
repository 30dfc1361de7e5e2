"""The official QMQ: recordings of its cluster, and servers that answer like it."""
