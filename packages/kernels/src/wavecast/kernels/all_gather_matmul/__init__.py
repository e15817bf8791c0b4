"""All-gather of a matrix's rows, overlapped with its product: rows are multiplied as soon as they are there."""
