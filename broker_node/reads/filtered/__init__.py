"""Searches with a filter: a step reads index entries and messages from the files, in a process of low priority."""
