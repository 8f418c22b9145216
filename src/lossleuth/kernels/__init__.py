"""Native loops over tensors that run in every step, each with its torch or numpy twin."""
