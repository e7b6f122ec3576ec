"""Keys, values and control records, decoded: messages of Kafka's own topics as text and as JSON."""
