"""From records in memory to answers: commits, checkpoints, room in the log."""
