"""`lossleuth watch`: recording a whole run, live."""
