"""Records as Arrow columns. Needs pyarrow, and no pyspark."""
