"""The reference trainer: the correct version of the trainers whose failures founded lossleuth."""
