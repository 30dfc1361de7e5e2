"""Frames of clients: which handler gets them, and which sends are accepted."""
