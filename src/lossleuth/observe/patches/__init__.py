"""What is put in place of torch functions while a script is watched."""
