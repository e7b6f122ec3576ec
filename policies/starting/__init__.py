"""What a start of Kafka does with log dirs: the rules of its loader, of facts that were read before.

No file is opened here. Where a rule depends on the contents of a file, it asks ``Contents``, which the engine answers.
"""
