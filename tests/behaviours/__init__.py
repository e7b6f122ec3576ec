"""What Kafka's own tests assert of a log, asserted of ours: ``tests/behaviours.md`` is the list."""
