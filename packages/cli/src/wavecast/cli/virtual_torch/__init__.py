"""torch for programs that ask for a GPU and shall get virtual ones: of one device, or of a node of several ranks."""
