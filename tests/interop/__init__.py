"""Real Kafka as referee: its jars, one JVM running its storage classes, and what they say of our log dirs."""
