"""What all other packages use: atomic files, processes, exit codes, this machine."""
