"""The owners of what Kafka's internal topics hold: groups and transactional ids, and why these topics are large."""
