"""Loads logs as a start of Kafka does, and cuts them: these modules alone take records off the end of a log."""
