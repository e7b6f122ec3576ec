"""The groups and transactional ids that own the records of Kafka's internal topics, and why these topics are large."""
