"""A start of Kafka, predicted: the rules of its loader, applied to facts that were read before.

No file is opened here. Where a rule depends on the contents of a file, it asks ``Contents``, which the engine answers.
"""
