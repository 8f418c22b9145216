"""The precision laboratory: what rounding and range do to a loss, a gradient and an update."""
