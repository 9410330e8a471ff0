"""HelloRetryRequest: handshakes of TLS 1.3 that take a second round trip to agree on a key-exchange group.

A client sends a key share for the group that it prefers. If the server does not accept this group, it asks the client
to start again with another group (RFC 8446, section 4.1.4), which costs one more round trip.
"""

from __future__ import annotations

from collections.abc import Iterator

from costof import format as fmt
from costof.messages.answers import mean_count
from costof.model import Finite, Model
from costof.report.blocks import Block, Paragraph
from costof.report.sections import Section, sentences
from costof.results.index import Index
from costof.results.models import Core, Sentence
from costof.results.run import Run

PHASE, VERSION = "tls", "TLSv1.3"
#: The round trips of a full handshake of TLS 1.3 (RFC 8446, section 2).
ROUND_TRIPS = 1
SENTENCE = (
    "With {arms}, the TLS handshake takes {trips}, although TLS 1.3 usually needs only 1. The server does not accept "
    "the key-exchange group that the client offers first, and asks the client to try again with {group} "
    "(HelloRetryRequest). A server that accepts the first group (X25519 for most clients) saves one round trip of each "
    "new connection."
)

MOST_OFFER = "X25519"
USUAL_FIRST = f"the key exchange {MOST_OFFER}, which most clients offer first"
CLIENTS_FIRST = "the key-exchange group that the client offers first"
#: The advice is also for clients, because not every server can be changed. For example, PostgreSQL before version 18
#: accepts only one group.
ADVICE = (
    "A new TLS connection needs 1 round trip fewer if the server accepts {offered}, or if clients offer {groups} first."
)


class HelloRetry(Model):
    """An arm whose full handshakes take more than one round trip."""

    arm: str
    group: str
    round_trips: Finite


class HelloRetrySection(Section[None, list[HelloRetry]]):
    name, title, order = "hello_retry", "Round trips of the TLS handshake", 72
    data = list[HelloRetry]

    def compute(self, run: Run, core: Core, spec: None) -> list[HelloRetry]:
        retries = (_retry(run, arm.name) for arm in run.plan.arms)
        return [retry for retry in retries if retry is not None]

    def answer(self, index: Index, data: list[HelloRetry]) -> list[Sentence]:
        """Return advice on how to save the additional round trip.

        The advice is a detail and not in the summary, because this run has not measured how much time it saves.
        """
        answered = {arm.name for arm in index.answered}
        groups = list(dict.fromkeys(each.group for each in data if each.arm in answered))
        if not groups:
            return []
        text = USUAL_FIRST if MOST_OFFER.casefold() not in map(str.casefold, groups) else CLIENTS_FIRST
        return sentences("detail", [ADVICE.format(offered=text, groups=fmt.listed(groups, "or"))])

    def blocks(self, index: Index, data: list[HelloRetry]) -> Iterator[Block]:
        for trips, group in dict.fromkeys((round(each.round_trips), each.group) for each in data):
            arms = [each.arm for each in data if (round(each.round_trips), each.group) == (trips, group)]
            labels = list(dict.fromkeys(index.label(arm) for arm in arms))
            text = SENTENCE.format(arms=fmt.listed(labels), trips=fmt.round_trips(trips), group=group)
            yield Paragraph(text)


def _retry(run: Run, arm: str) -> HelloRetry | None:
    answers = [
        record.answer
        for record in run.all_slices(arm)
        if record.mismatch is None
        and record.answer.evidence.get("protocol") == VERSION
        and not record.answer.evidence.get("resumed")
    ]
    phases = [phase for answer in answers if (phase := answer.phases.get(PHASE)) is not None]
    groups = {group for answer in answers if (group := answer.evidence.get("group"))}
    trips = mean_count(phases, "round_trips")
    if trips is None or len(groups) != 1:
        return None
    # The count may include a fraction of a round trip, because a handshake can be split over several packets.
    return HelloRetry(arm=arm, group=groups.pop(), round_trips=trips) if trips > ROUND_TRIPS + 0.5 else None


SECTION = HelloRetrySection()
