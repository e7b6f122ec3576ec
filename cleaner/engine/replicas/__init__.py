"""Replicas of a partition: a digest of each one, and whether the digests agree."""
