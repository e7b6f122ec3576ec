"""The machine code of kernels: the library that fits this CPU, and how Python calls it. ``storage.compiler`` makes it.

Nouns: a *kernel* is a function that is written for numba; an *entry* is its machine code, callable from Python; a
*level* is a set of instructions that CPUs have in common, as the x86-64 psABI names them; an *instruction* stands for
code that a generator makes.
"""
