"""The five founding programs: ordinary training scripts, faulty on purpose, and their stories."""
