"""What a person reads: pure functions of verdicts and records."""
