"""Types that every layer shares: no torch, and nothing else of ours."""
