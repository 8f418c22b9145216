"""What can be wrong, by the place to look: one folder per stage, one file per cause."""
