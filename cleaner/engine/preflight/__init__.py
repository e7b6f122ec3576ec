"""The engine of ``preflight``: it reads what the rules of a start need to know of log dirs, and measures the disk."""
