"""`make bench`: every benchmark, one table each. Speed is told as a ratio against a peer, never asserted.

`python -m benches.run mongodb_insert tpcc` runs these alone.
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
    """All of them, or the named ones."""
    # As in a run: what a sleeping core costs is no client's.
    with cores_awake():
        for name in names or BENCHES:
            BENCHES[name].main()


if __name__ == "__main__":
    run()
