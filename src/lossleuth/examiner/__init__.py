"""From a run to a verdict: gather evidence, judge, try, judge again."""
