"""The entry point of `costof` and `python -m costof`."""

import gc

from costof.cli.process_title import hide_arguments


def main() -> None:
    """Hide secrets in the arguments of this process, then import the command line, which is slow, and run it."""
    hide_arguments()
    # Garbage collection during imports would take a tenth of their time and free almost nothing.
    gc.set_threshold(200_000)
    from costof.cli.main import main as command_line

    command_line()


if __name__ == "__main__":
    main()
