"""The command line: a module a command, each with HELP, ``add_arguments``, ``run``; thin over the engine."""
