"""The commands that only read: topics, explain, owners, history, diff, export, analyze."""
