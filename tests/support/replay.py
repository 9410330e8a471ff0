"""A simulated run that is replayed round by round, as if it ran now, to test the displays of its progress.

As a program, `python -m tests.support.replay RUN PIPE` replays a round for each line 'round' that it reads from a pipe,
and ends at the pipe's end. A test can therefore decide when a terminal is drawn.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from costof.cli.progress import open_display
from costof.errors import CostofError, ErrorText
from costof.results.ledger import AnyRecord, Ledger, SliceRecord
from costof.results.metrics import Samples, add_samples
from costof.results.run import Run
from costof.run.progress import Display, RunProgress
from costof.run.schedule import precision

ROUND_SECONDS = 3.0


@dataclass
class Replay:
    """Replays the rounds of a ledger, with a simulated clock that advances with each round."""

    ledger: Ledger
    seconds: float = 0.0
    done: int = 0
    is_mismatch: bool = False
    """True if the evidence of the next round does not match its arms."""
    samples: Samples = field(default_factory=Samples)

    def __post_init__(self) -> None:
        self.plan = self.ledger.plan()
        self.records = [*self.ledger.records()]

    def clock(self) -> float:
        return self.seconds

    def progress(self, display: Display, earlier: Run | None = None) -> RunProgress:
        return RunProgress(self.plan, self.ledger, display, earlier, self.clock)

    def begin(self, progress: RunProgress) -> None:
        for record in self.records:
            if isinstance(record, SliceRecord) and not record.warm_up:
                break
            self._append(record)
        progress.stage("measuring")

    def round(self, progress: RunProgress) -> None:
        for record in self.records:
            if isinstance(record, SliceRecord) and record.round == self.done and not record.warm_up:
                if self.is_mismatch:
                    record = record.model_copy(update={"mismatch": "the client did not use TLS"})
                self._append(record)
                if record.mismatch is None:
                    add_samples(self.plan, self.samples, record)
        self.done, self.is_mismatch = self.done + 1, False
        self.seconds += ROUND_SECONDS
        progress.round(self.done, self.done * ROUND_SECONDS, precision(self.plan, self.samples))

    def _append(self, record: AnyRecord) -> None:
        """Pass the record to the ledger's listener as if the run had just written it."""
        listener: Callable[[AnyRecord], None] | None = self.ledger.listener
        assert listener is not None
        listener(record)


def main() -> None:
    replay = Replay(Ledger.open(Path(sys.argv[1])))
    try:
        with replay.progress(open_display(json_lines=False)) as progress, Path(sys.argv[2]).open() as pipe:
            replay.begin(progress)
            for line in pipe:
                match line.strip():
                    case "fail":
                        raise CostofError(ErrorText.NOTHING_MEASURED, detail="the test ends here")
                    case "mismatch":
                        replay.is_mismatch = True
                    case _:
                        replay.round(progress)
    except CostofError as error:
        print(f"costof: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("the partial answer")
    else:
        print("the answer")


if __name__ == "__main__":
    main()
