"""The service around the engine: settings, layers of configuration, and the daemon that runs under them."""
