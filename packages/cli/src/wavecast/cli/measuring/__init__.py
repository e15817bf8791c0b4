"""Measuring on a real GPU: right first, then timed, then put beside what was predicted."""
