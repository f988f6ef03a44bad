"""``python -m gradstep`` is the command line."""

from gradstep.cli import main

if __name__ == "__main__":
    main()
