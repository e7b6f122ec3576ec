"""A plan and its outcome by topic: topics that change come first; a topic without a change has one line."""
