"""Commands, each imported when it is used."""
