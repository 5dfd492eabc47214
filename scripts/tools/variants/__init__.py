"""Other ways to compile a program: remedies, flag sets and tuning."""
