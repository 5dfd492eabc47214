"""python -m scripts.command: the command `vmfbench`, where it is not installed."""

from scripts.command import main

if __name__ == "__main__":
    main()
