"""Records of one partition, out of Kafka's format: Parquet, JSON lines.

Nouns: a *reading* is what was fixed when the export began (``transfer``); a *writer* has a format (``jsonl``,
``parquet``); a *target* is the file that appears once it is whole. What is read, and how, is the Spark source's:
slices, chunks and columns of ``cleaner.spark``, none of which needs Spark.
"""
