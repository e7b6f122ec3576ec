"""The facts of an explanation beside those of a plan, read for one partition: observations, and a segment's contents.

The reading takes no lock. It looks again at files that a live broker changes meanwhile, or reports them as a problem.
"""
