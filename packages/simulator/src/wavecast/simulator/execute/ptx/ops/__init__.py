"""Semantics of PTX, a family a module."""
