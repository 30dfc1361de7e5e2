"""What surrounds every daemon: its machine, its threads, its log lines, its end."""
