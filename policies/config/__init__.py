"""Kafka's configuration keys, the layers that state values, and the resulting policy of a topic or a broker."""
