"""The tape: the recorded operations of a training step, ready to be replayed."""
