"""The commands that set things up: demo, systemd, completion."""
