"""The commands that only read: topics, history, diff, export, analyze."""
