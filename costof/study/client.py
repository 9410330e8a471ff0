"""With a client: a study that a load generator which people use asks as well, beside the study's own views."""

from __future__ import annotations

from costof.errors import CostofError, Problem
from costof.instruments.clients import Client
from costof.instruments.commands.readers import reader
from costof.study.commands import COMMAND, MARGIN, TOLD_SECONDS
from costof.study.metric import OF_COMMAND, Metric
from costof.study.schema import SliceSize, Study, Workload

WORKLOAD = "client"


def with_client(study: Study, client: Client) -> Study:
    """The study with one workload more, and a metric for each figure that the program may tell. Raises
    `CLIENT_OF_OTHERS` where it does not speak to what the study asks, and `PROGRAM_MISSING`."""
    service = study.service.program or study.service.kind
    if service != client.of:
        raise CostofError(
            Problem.CLIENT_OF_OTHERS, client=client.program, of=client.of, study=study.name, service=service
        )
    client.found()
    workload = Workload(label=f"{client.program} as the client", view=COMMAND, kind=COMMAND, command=client.asked)
    metrics = {
        f"{WORKLOAD}.{name}": Metric(
            label=f"{figure.label}, {client.program}",
            description=f"As {client.program} tells it.",
            workload=WORKLOAD,
            phase=f"{OF_COMMAND}{name}",
            unit=figure.unit,
            better=figure.better,
            headline=name in client.headline,
            margin=MARGIN,
        )
        for name, figure in reader(client.program).figures.items()
    }
    size = {WORKLOAD: SliceSize(operations=1, seconds=TOLD_SECONDS)}
    profiles = {
        name: profile.model_copy(update={"slices": profile.slices | size}) for name, profile in study.profiles.items()
    }
    changes = {
        "workloads": study.workloads | {WORKLOAD: workload},
        "metrics": study.metrics | metrics,
        "profiles": profiles,
    }
    return study.model_copy(update=changes)
