"""What everything else stands on: whole files, processes, exit codes, this machine."""
