"""The entry point of `costof` and `python -m costof`."""

import gc

from costof.cli.process_title import hide_arguments


def main() -> None:
    """Hide secrets in the arguments before the slow import of the command line, then run it."""
    hide_arguments()
    # Objects made by imports stay alive; collecting garbage during imports cost a tenth of their time.
    gc.set_threshold(200_000)
    from costof.cli.main import main as command_line

    command_line()


if __name__ == "__main__":
    main()
