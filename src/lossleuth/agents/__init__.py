"""For coding assistants: the instrument as a Model Context Protocol server over stdio."""
