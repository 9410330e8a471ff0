"""The entry point of `costof` and `python -m costof`."""

import gc

from costof.cli.process_title import hide_arguments


def main() -> None:
    """Hide secrets in the arguments of this process. Then import and run the command line.

    The import is slow, and until the arguments are hidden, other users can read them.
    """
    hide_arguments()
    # Garbage collection would take a tenth of the time of the imports and free almost nothing.
    gc.set_threshold(200_000)
    from costof.cli.main import main as command_line

    command_line()


if __name__ == "__main__":
    main()
