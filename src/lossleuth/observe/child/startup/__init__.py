"""Put at the head of PYTHONPATH for processes that a watched script starts."""
