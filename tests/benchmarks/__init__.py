"""Measurements, run by hand before and after a change to the hot path; none of them is a test."""
