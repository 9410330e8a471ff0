"""The entry point: `costof`, and `python -m costof`."""

from costof.cli.process_title import hide_arguments


def main() -> None:
    """Hide what others must not read, and only then take the time to import the command line."""
    hide_arguments()
    from costof.cli.main import main as command_line

    command_line()


if __name__ == "__main__":
    main()
