"""Compile: kernel source to code object, for an architecture that need not be present."""
