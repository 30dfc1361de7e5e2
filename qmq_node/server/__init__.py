"""The server of frames: connections, their limits and what they use."""
