"""The reference implementations: a trainer and a distiller that are right."""
