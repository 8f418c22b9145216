"""How low could this go? Two references that train on the very batches of a run."""
