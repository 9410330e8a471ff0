"""The command line: the group of all commands, signals and exit statuses."""

from __future__ import annotations

import signal
import sys
from importlib import import_module
from types import FrameType

import click
from click.shell_completion import CompletionItem

from costof import __version__
from costof.errors import EXIT_FAILED, EXIT_PARTIAL, EXIT_USAGE, CostofError
from costof.programs.password_variable import remove_from_environment

#: Module and name of each command. It is imported when it is called: what measures and what analyses takes its time.
COMMANDS = {
    "list": ("costof.cli.list:list_studies", "The questions that can be asked, with their factors."),
    "run": ("costof.cli.run:run", "Ask STUDY: measure, and report what the protection costs."),
    "versus": ("costof.cli.versus:versus", "Commands against each other: what do the others cost against the first?"),
    "new": ("costof.cli.new:new", "Write a study's file, for a question of your own."),
    "show": ("costof.cli.show:show", "Print the answer of an earlier run."),
    "report": ("costof.cli.show:report", "Make the reports of an earlier run again, from its ledger."),
    "export": ("costof.cli.export:export", "A run for other programs: CSV, Parquet, HdrHistogram's log, OpenMetrics."),
    "gate": ("costof.cli.gate:gate", "Is what a protection costs within the limits? For a pipeline."),
    "compare": ("costof.cli.compare:compare", "Did a cost change between two runs of one study?"),
    "history": ("costof.cli.history:history", "How costs went over many runs, and where they changed."),
    "ab": ("costof.cli.ab:ask_as_ab", "Ask one URL as Apache's ab does, and print its report."),
    "ycsb": ("costof.cli.ycsb:ycsb", "YCSB's load or run phase on your own DATABASE."),
    "gateway": ("costof.cli.gateway:gateway", "Let approved statements pass to a MySQL server and encrypt columns."),
    "fetch": ("costof.cli.fetch:fetch", "Fetch server programs for labs, without root."),
    "clean": ("costof.cli.clean:clean", "List databases that killed runs have left on a target, and remove them."),
    "doctor": ("costof.cli.doctor:doctor", "What this machine has and lacks for the lab, and how to get it."),
    "completion": ("costof.cli.completion:completion", "What a shell reads to complete costof's words."),
}


class Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        found: click.Command = getattr(import_module(module), name)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, words) in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete as click does, but without importing every command for its help."""
        names = [
            CompletionItem(name, help=words) for name, (_, words) in COMMANDS.items() if name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="costof")
@click.pass_context
def cli(context: click.Context) -> None:
    """What will this protection cost my service? A controlled experiment on real servers, and its answer.

    `costof ab URL` asks one URL, with the options and the report of Apache's ab; `costof ycsb`
    takes YCSB's command line.
    """
    context.obj = remove_from_environment()


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Run the command line: every error ends in one line on standard error and an exit status of its own."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        cli.main(standalone_mode=False)
    except CostofError as error:
        click.echo(f"costof: {error}", err=True)
        sys.exit(error.exit_status)
    except click.ClickException as error:
        click.echo(f"costof: {error.format_message()}", err=True)
        sys.exit(EXIT_USAGE)
    except (KeyboardInterrupt, click.Abort):
        click.echo("costof: interrupted", err=True)
        sys.exit(EXIT_PARTIAL)
    except BrokenPipeError:
        sys.exit(EXIT_FAILED)


if __name__ == "__main__":
    main()
