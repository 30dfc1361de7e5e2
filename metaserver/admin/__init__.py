"""The pages and numbers of a metaserver for operators."""
