"""``gradstep`` and ``python -m gradstep`` are the command line."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C while it is still being loaded ends it as later."""
    try:
        from gradstep.cli import main as run

        run()
    except KeyboardInterrupt:
        print("interrupted; nothing was written", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
