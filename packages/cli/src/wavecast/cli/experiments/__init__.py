"""The catalogue: one file per experiment, with its variants, its shapes and what was published about it."""
