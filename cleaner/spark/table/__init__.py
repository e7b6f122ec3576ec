"""The data source ``kafka-log``: batch, stream and sink."""
