"""Compaction by a Spark cluster: the steps, the work of each task, and the scratch files."""
