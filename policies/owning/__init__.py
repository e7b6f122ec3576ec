"""Who has what in the topics of Kafka's coordinators: groups and transactional ids, and why these topics are large."""
