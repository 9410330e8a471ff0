"""Memory of a connection: by how much the servers' memory grows with each idle connection.

Only runs with `--memory` or `--server-memory` have this section.
"""

from __future__ import annotations

from collections.abc import Iterator

from costof import format as fmt
from costof.format import Text
from costof.lab.memory import PSS, RSS
from costof.report.blocks import Block, Bullets, Paragraph, Table
from costof.report.sections import Section, sentences
from costof.results.index import Index
from costof.results.memory import ArmMemory, ConnectionMemory, connection_memory
from costof.results.models import Arm, Core, Sentence
from costof.results.run import Run
from costof.statistics.estimate import Estimate

CLIENTS = 10_000
UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
METHOD = (
    "After the last round, idle connections to each variant were opened in {steps} steps{servers}. All idle "
    "connections stayed open. Before a connection became idle, it logged in (if the server has logins) and performed "
    "one operation. "
    "The memory of a connection is the growth of the servers' memory in a step, divided by the number of connections "
    "opened in the step. The shown memory of a connection is the mean over all steps except the first {lead_in}, with "
    "its 95 % interval."
)
FRESH = ", on servers that were started for this measurement"
TURNS = (
    ", in which the variants took turns. The first {lead_in} steps may reuse memory that earlier connections left; if "
    "later connections did so too, the figures are too small"
)
METHODS = {
    PSS: "Memory is the proportional set size (PSS) without programs and libraries: memory that processes share is "
    "divided among them, so that it counts once.",
    RSS: "Memory is the resident set size (RSS) where PSS may not be read: memory that processes share counts in "
    "each of them, so that figures of servers with many processes are too large.",
    "--server-memory": "Memory is what the command of --server-memory printed.",
}
NOT_COUNTED = "The kernel's memory for sockets and page tables is not included."


class MemorySection(Section[None, ConnectionMemory]):
    name, title, order = "memory", "Memory of a connection", 115
    data = ConnectionMemory

    def compute(self, run: Run, core: Core, spec: None) -> ConnectionMemory | None:
        return connection_memory(run)

    def answer(self, index: Index, data: ConnectionMemory) -> list[Sentence]:
        by_arm = {each.arm: each for each in data.arms}
        memory = ((arm, by_arm.get(arm.name)) for arm in index.answered)
        return sentences("answer", [text for arm, each in memory if each and (text := _sentence(arm, each))])

    def blocks(self, index: Index, data: ConnectionMemory) -> Iterator[Block]:
        roles = list(dict.fromkeys(role for each in data.arms for role in each.bytes_by_role))
        measured = [each for each in data.arms if each.growth]
        if measured:
            several = roles if len(roles) > 1 else []
            head = ["variant", *(f"{role}, kB" for role in several), "a connection", "added", f"{CLIENTS:,} clients"]
            rows = [_row(index, several, each) for each in measured]
            yield Table.of(head, rows, title="Memory of an idle connection")
            landmarks = sorted({growth.connections for each in measured for growth in each.growth})
            head = ["variant", *(fmt.plural(each, "connection") for each in landmarks)]
            grown = []
            for each in measured:
                sizes = {growth.connections: size_text(growth.bytes) for growth in each.growth}
                grown.append([index.short(each.arm), *(sizes.get(landmark, fmt.NONE) for landmark in landmarks)])
            yield Table.of(head, grown, title="Growth of the servers' memory with idle connections")
            servers = FRESH if data.fresh else TURNS.format(lead_in=data.lead_in)
            first = "one" if data.lead_in == 1 else f"{data.lead_in}"
            method = METHOD.format(steps=data.steps, servers=servers, lead_in=first)
            notes = [method, *(METHODS[method] for method in data.methods), NOT_COUNTED]
            yield Paragraph(" ".join(notes), "note")
        if missing := [_missing(index, data.planned, each) for each in data.arms if each.missing]:
            yield Bullets(missing, label="Not measured")


def _sentence(arm: Arm, memory: ArmMemory) -> str | None:
    """Return the sentence about the memory that an arm adds to each connection; None if it is unknown.

    For example: "TLS adds 36.1 kB to the servers' memory for each connection: 361 MB for 10,000 clients."
    """
    added = memory.added
    if added is None:
        return None
    what = f"the servers' memory for each connection{arm.at}"
    if added.low <= 0 <= added.high:
        return f"{fmt.capital(arm.label)} may change {what} by up to {fmt.at_most(*_scaled(added))}."
    more = added.value > 0
    size = added if more else added.through(lambda value: -value)
    all_clients = size_text(size.value * CLIENTS)
    verb, to = ("adds", "to") if more else ("saves", "of")
    return f"{fmt.capital(arm.label)} {verb} {sized(size)} {to} {what}: {all_clients} for {CLIENTS:,} clients."


def _row(index: Index, roles: list[str], memory: ArmMemory) -> list[str | Text]:
    of_roles = [fmt.number(memory.bytes_by_role.get(role, 0.0) / 1e3) for role in roles]
    total = memory.bytes
    return [
        index.short(memory.arm),
        *of_roles,
        sized(total) if total is not None else fmt.NONE,
        sized(memory.added, signed=True) if memory.added is not None else fmt.NONE,
        size_text(total.value * CLIENTS) if total is not None else fmt.NONE,
    ]


def _missing(index: Index, planned: int, memory: ArmMemory) -> str:
    arm = f"For '{index.label(memory.arm)}',"
    if not memory.connections:
        return f"{arm} no connections were measured. Reason: {memory.missing}."
    return f"{arm} only {memory.connections:,} of {planned:,} connections were measured. Reason: {memory.missing}."


def sized(estimate: Estimate, *, signed: bool = False) -> Text:
    """Format bytes with their interval, in the largest unit in which the number is at least 1."""
    return fmt.absolute(*_scaled(estimate), signed=signed)


def _scaled(estimate: Estimate) -> tuple[Estimate, str]:
    """Return bytes in the largest unit in which the number is at least 1, and this unit."""
    largest = max(map(abs, (estimate.value, estimate.low, estimate.high)))
    factor, unit = next(((each, unit) for each, unit in UNITS if largest >= each), (1.0, "B"))
    return estimate.through(lambda value: value / factor), unit


def size_text(value: float) -> str:
    return f"{fmt.MINUS if value < 0 else ''}{fmt.bytes_text(abs(value))}"


SECTION = MemorySection()
