"""Model files: read, loaded, counted, run eagerly for their golden results."""
