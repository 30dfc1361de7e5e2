"""Reading messages and index entries: from memory, or as a plan for a thread."""
