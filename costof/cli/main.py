"""The root command of the command line, and the handling of signals and exit statuses."""

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

#: Module, name and help of each command. Modules are imported on demand, because importing some of them is slow.
COMMANDS = {
    "list": ("costof.cli.list:list_studies", "List the studies with their factors and levels."),
    "run": ("costof.cli.run:run", "Run STUDY: measure, and report what the protection costs."),
    "versus": ("costof.cli.versus:versus", "Compare the costs of commands with the first one."),
    "new": ("costof.cli.new:new", "Write a study file for commands of your own."),
    "show": ("costof.cli.show:show", "Print the verdict, key figures and checks of an earlier run."),
    "report": ("costof.cli.show:report", "Write the reports of an earlier run again."),
    "export": (
        "costof.cli.export:export",
        "Export a run as CSV, Parquet, HdrHistogram log, OpenMetrics or Bencher JSON.",
    ),
    "gate": ("costof.cli.gate:gate", "Check the costs of a run against limits, for a pipeline."),
    "compare": ("costof.cli.compare:compare", "Compare the costs of two runs of one study."),
    "history": ("costof.cli.history:history", "Show how costs changed over many runs."),
    "ab": ("costof.cli.ab:ab", "Measure one URL with the options and report of Apache's ab."),
    "ycsb": ("costof.cli.ycsb:ycsb", "Run YCSB's load or run phase on your own DATABASE."),
    "gateway": ("costof.cli.gateway:gateway", "Pass only approved statements to a MySQL server, and encrypt columns."),
    "fetch": ("costof.cli.fetch:fetch", "Download server programs for labs, without root."),
    "clean": ("costof.cli.clean:clean", "List and remove databases that killed runs left on a target."),
    "selftest": ("costof.cli.selftest:selftest", "Check on this machine that costof finds known costs."),
    "doctor": ("costof.cli.doctor:doctor", "Check what this machine has and lacks for a lab."),
    "completion": (
        "costof.cli.completion:completion",
        "Print a script with which a shell completes costof's commands.",
    ),
}


class Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return completions as click does.

        click would import every command to get its help. This function takes the help from `COMMANDS` instead.
        """
        names = [
            CompletionItem(name, help=summary) for name, (_, summary) in COMMANDS.items() if name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]


FIRST_STEPS = """\
costof measures what a protection costs a service. Three commands to try:

  costof run mongodb-tls --profile quick     what TLS costs a MongoDB client, in about a minute
  costof versus 'sleep 0.1' 'sleep 0.11'     the difference between two commands of your own
  costof list                                all questions that costof can answer in a lab

`costof --help` lists all commands.
"""


@click.command(cls=Commands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="costof")
@click.pass_context
def cli(context: click.Context) -> None:
    """Measure what a protection (TLS, a tunnel, a pooler, …) costs a service, by a controlled experiment.

    `costof ab URL` measures one URL with the options and the report of Apache's ab. `costof ycsb` accepts YCSB's
    command line.
    """
    context.obj = remove_from_environment()
    if context.invoked_subcommand is None:
        click.echo(FIRST_STEPS, nl=False)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Run the command line. An error ends the command with one line on standard error and an exit status."""
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
