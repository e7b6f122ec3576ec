"""The report of ``owners``: who has what in the topics of Kafka's coordinators."""
