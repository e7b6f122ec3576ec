"""The command line: one module for each command, with HELP, ``add_arguments`` and ``run``; the work is the engine's."""
