"""PyQMQ: a durable message queue after QMQ's model."""

__version__ = "0.1.0"
