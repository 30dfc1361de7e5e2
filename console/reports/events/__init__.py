"""One feed of what happened: alerts, what nodes and metaservers did, and operators' changes, merged by time."""
