"""What a report says, block by block."""
