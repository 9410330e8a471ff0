"""The entry point: `costof`, and `python -m costof`."""

import gc

from costof.cli.process_title import hide_arguments


def main() -> None:
    """Hide what others must not read, and only then take the time to import the command line."""
    hide_arguments()
    # What imports make stays: to look through it for garbage again and again took a tenth of their time.
    gc.set_threshold(200_000)
    from costof.cli.main import main as command_line

    command_line()


if __name__ == "__main__":
    main()
