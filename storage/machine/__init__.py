"""The compiler of kernels: it makes machine code of them, keeps that code, and lets Python call it.

Nouns: a *kernel* is a function that is written for numba; an *entry* is its machine code, callable from Python; the
*cache* keeps machine code from run to run; an *instruction* stands for code that a generator makes.
"""
