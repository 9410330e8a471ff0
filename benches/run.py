"""`make bench`: runs all benchmarks. Each prints a table of speeds relative to another program, and asserts nothing.

`python -m benches.run mongodb_insert tpcc` runs only these two.
"""

from __future__ import annotations

import click

from benches import (
    analysis,
    distances,
    encryption,
    gateway,
    http,
    mongodb_find,
    mongodb_insert,
    mysql,
    postgres,
    redis_get,
    startup,
    tpcc,
)
from costof.run.machine import cores_awake

BENCHES = {
    bench.__name__.rpartition(".")[2]: bench
    for bench in (
        mongodb_find,
        mongodb_insert,
        mysql,
        postgres,
        redis_get,
        tpcc,
        encryption,
        gateway,
        http,
        analysis,
        distances,
        startup,
    )
}


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(BENCHES)))
def run(names: tuple[str, ...]) -> None:
    """Run the benchmarks with these names, or all benchmarks if there are no names."""
    # Keep the cores awake, as `costof run` does: otherwise the time that a core needs to wake up would be measured too.
    with cores_awake():
        for name in names or BENCHES:
            BENCHES[name].main()


if __name__ == "__main__":
    run()
