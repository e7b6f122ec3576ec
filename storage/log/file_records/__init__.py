"""A ``.log`` as Kafka's ``FileRecords`` reads it, exception for exception: where a start finds batches, and an end."""
