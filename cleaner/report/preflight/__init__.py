"""The report of ``preflight``: what a start of Kafka will do."""
