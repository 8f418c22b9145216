"""Which tensors of a tape are tokens, targets, logits and loss."""
