"""A clean stopped at each of its steps: by an error, by SIGKILL, by a power loss."""
