"""The entry point of `costof` and `python -m costof`."""

import gc

from costof.cli.process_title import hide_arguments


def main() -> None:
    """Hide secrets in the arguments of this process, then import the command line, which is slow, and run it."""
    hide_arguments()
    # Objects made by imports stay alive, so collecting garbage during imports would only cost a tenth of their time.
    gc.set_threshold(200_000)
    from costof.cli.main import main as command_line

    command_line()


if __name__ == "__main__":
    main()
