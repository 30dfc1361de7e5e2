"""What broker nodes, delay nodes and the metaserver stand on: log, server, commits, registration, replication."""
