"""Small training scripts that learn, and faults that can be planted in them.

They lie in one folder: what lies beside a script is the user's code to the examiner.
"""
