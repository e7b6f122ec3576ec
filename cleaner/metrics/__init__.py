"""The metrics of plans and runs, served over HTTP or written to a textfile."""
