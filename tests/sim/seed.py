"""The seed of this run."""

import os

SEED = int(os.environ.get("QMQ_SIM_SEED", "1"))
"""Decides every delay and order of a test that names no seed of its own."""
