"""Updates that no hook reports, and updates that never come."""
