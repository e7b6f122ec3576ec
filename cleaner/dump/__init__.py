"""What a file of a log dir holds, shown line by line: as Kafka's ``kafka-dump-log`` shows it, or as JSON lines.

``files`` says what a file is, ``options`` what is asked for. ``logs``, ``indexes`` and ``small_files`` read; ``text`` and
``json_lines`` make the lines.
"""
