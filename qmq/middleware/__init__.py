"""Middleware for tracing, metrics and logs. Each module needs its own library; `qmq.client.middleware` is the base class."""
