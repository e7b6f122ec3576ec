"""Kafka's configuration keys, the layers that state them, and the policy that results for a topic or a broker."""
