"""Kafka's message schemas as tables, and one decoder for all of them: bytes of a key or value to plain Python values.

``notation`` reads a table, ``decoding`` decodes by it. The other files hold tables: facts of Kafka's, one message a
paragraph.
"""
