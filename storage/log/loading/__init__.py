"""What a start of Kafka does to a log, and what else cuts one: loading, truncation, the changes of a follower."""
