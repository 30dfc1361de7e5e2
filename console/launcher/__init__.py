"""`manage.py up`: every process of a small system, watched.

Starts in order, each when what it needs answers; prints a table of addresses and `ready`; streams prefixed logs; restarts
what crashes with a growing pause; stops everything in reverse order. When a node keeps crashing, on a full or damaged disk for
example, it is restarted once a minute and the others continue; when any other process does, everything is stopped.
"""
