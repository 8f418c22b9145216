"""The tape: the operations of a training step, kept so that they can be done again."""
