"""What the console reads from nodes and changes on them.

`asking` is the one way to ask them, and `limits` the one table of how long that may take.
"""
