"""Frameworks that applications use. Each module imports its framework; nothing else of qmq imports this room."""
