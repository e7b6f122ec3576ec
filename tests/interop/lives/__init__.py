"""Random lives of one log, lived by Kafka's ``UnifiedLog`` and by our ``Log`` step by step, and compared at each step."""
