"""python -m scripts.cli: the command `vmfbench`, where it is not installed."""

from scripts.cli import main

if __name__ == "__main__":
    main()
