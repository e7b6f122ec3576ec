"""The compiler of kernels: numba, LLVM and a linker make one shared library for each CPU level.

``ahead`` has numba lower the kernels to LLVM's bitcode, a process each room; ``level`` has LLVM compile that, a process
each level. They run when the package is built (``hatch_build.py``), and after a change of a kernel by
``python -m storage.compiler``. A wheel does not carry them. ``storage.machine`` loads what they made.

Nouns: a *kernel* is a function that is written for numba; an *entry point* is a kernel with a signature, which Python
calls; a *level* is a set of instructions that CPUs have in common (``storage.machine.library.LEVELS``).
"""
