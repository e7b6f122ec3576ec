"""Files of a log dir, shown line by line: as Kafka's ``kafka-dump-log`` shows them, or as JSON lines.

``files`` tells the kind of a file, ``options`` what the user asked for. ``logs``, ``indexes`` and ``dumping`` read;
``text`` and ``json_lines`` make the lines, and ``printing`` has kernels make them.
"""
