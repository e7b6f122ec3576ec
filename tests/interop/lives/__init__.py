"""Random lives of one log step by step by Kafka's ``UnifiedLog`` and by our ``Log``, compared at each step."""
