"""Other ways to compile a program: remedies, flag sets, tuning and tuning specs."""
