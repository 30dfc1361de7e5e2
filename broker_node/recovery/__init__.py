"""Checkpoints, and how a store is opened again from them and the log."""
