"""Import what ``export`` wrote, as a new partition, without Spark.

Nouns: an *input* is a file of one format (JSON lines, ``parquet``); ``inputs`` reads several one after the other. An
*imported record* has an offset and the type of its timestamp. ``placing`` finds the log dir and the topic id.
``building`` makes batches of the records, writes them where no broker sees them, and renames them last.
"""
