"""The facts of an explanation beside those of a plan, read for one partition: observations, and a segment's contents.

Read-only, and without a lock: what a live broker changes meanwhile is looked at again, or told as a problem.
"""
