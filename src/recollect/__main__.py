"""``python -m recollect``: the command line, wherever the console script is not on the path."""

from recollect.cli import main

if __name__ == "__main__":
    main()
