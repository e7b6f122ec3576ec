"""Tests; they mirror the packages, and interop holds what real Kafka says."""
