"""The cluster metadata of KRaft: topics, their ids and configurations, from log and snapshot."""
