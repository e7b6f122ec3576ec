"""Look up an offset or a timestamp in one partition: read-only, without a lock, beside a live broker, too."""
