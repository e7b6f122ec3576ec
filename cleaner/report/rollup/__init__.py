"""A plan and its outcome by topic: what changes first, one line for a topic of which nothing does."""
