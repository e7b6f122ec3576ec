"""Export the records of one partition from Kafka's format to Parquet or JSON lines.

Nouns: a *reading* holds the offsets, files and lengths fixed at the start of the export (``transfer``). A *writer* has
a format (``jsonl``, ``parquet``). A *target* is the file, which appears once it is whole. The export reads as the Spark
source does, by extents, chunks and columns (``storage.scan``, ``cleaner.arrow``). None of these needs Spark.
"""
