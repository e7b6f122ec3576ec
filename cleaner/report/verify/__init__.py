"""Reports of findings: what is wrong with a log dir, worst first."""
