"""The only writers of metadata: each function validates, writes and audits in one transaction."""
