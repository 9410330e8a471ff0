"""Sections of four studies find the known costs of simulated runs, and handle arms that fail."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from costof import format as fmt
from costof.errors import CostofError, ErrorText
from costof.report import analyse, render_markdown
from costof.report.blocks import Paragraph, Table
from costof.report.result import Result
from costof.report.sections.breakdown import SECTION as BREAKDOWN
from costof.report.sections.hello_retry import SECTION as HELLO_RETRY
from costof.report.sections.recommendations import SECTION as RECOMMENDATIONS
from costof.report.sections.sweep import SECTION as SWEEP
from costof.report.sections.sync_tree import Tree, followers_of, initials, places, shape
from costof.results.index import Index
from costof.results.ledger import EnvironmentRecord, Ledger, LostRecord, SizesRecord, SliceRecord
from costof.statistics.estimate import Verdict
from tests.fake_run import fake_result, fake_run
from tests.noise import Noise
from tests.report.results import (
    ENCRYPTION,
    HTTP,
    REPLICATION,
    TRANSPORT,
    effect_of,
    near,
    sentence_texts,
    spaced,
    value_of,
)
from tests.support.small_plans import plan_of
from tests.truths import http_tls_termination as http
from tests.truths import mongodb_chained_replication as replication
from tests.truths import mysql_column_encryption as encryption
from tests.truths.http_tls_termination import HttpTruth
from tests.truths.mongodb_chained_replication import ReplicationTruth
from tests.truths.mysql_column_encryption import EncryptionTruth
from tests.truths.mysql_transport import PHASES, TransportTruth
from tests.truths.postgres_tls import PostgresTruth

DISTANCES = {"lan": 0.0, "us-us": 44.648, "us-eu": 170.126}
OWN = {kind: sum(own for own, _ in parts.values()) for kind, parts in PHASES.items()}
TLS_MS = OWN["tls"] - OWN["plain"]
LAN = plan_of(TRANSPORT, "default", "distance=lan")
ROUNDS = 8


@cache
def everywhere() -> Result:
    return fake_result(plan_of(TRANSPORT, "default", f"distance={','.join(DISTANCES)}"), TransportTruth(), rounds=12)


def test_cost_model_estimates_the_simulated_parameters_and_predicts_costs_at_far_distances() -> None:
    model = everywhere().sections.cost_model
    assert everywhere().distances == DISTANCES
    costs = {(cost.protection, cost.operation): cost for cost in model.operations}
    trips = {("plain", "connection"): 3, ("tls", "connection"): 4, ("ssh-aes256-ctr", "connection"): 2}
    assert {each: costs[each].round_trips for each in trips} == trips
    assert costs["ssh-aes256-ctr", "operation"].round_trips == 1
    own = costs["tls", "connection"].own_ms
    assert own.low <= OWN["tls"] <= own.high
    extras = {(extra.protection, extra.operation): extra for extra in model.extras}
    assert (extras["tls", "connection"].round_trips, extras["ssh-aes256-ctr", "connection"].round_trips) == (1, -1)
    assert extras["tls", "connection"].own_ms.low <= TLS_MS <= extras["tls", "connection"].own_ms.high
    assert extras["tls", "operation"].cpu_ms.value == pytest.approx(0.002 + 0.004, rel=0.1)
    far = [prediction for prediction in model.predictions if not prediction.local]
    assert len(far) == 3 * 3 * 2
    assert max(abs(prediction.error) for prediction in far) < 0.001, "the configured round-trip times are 0.5 % off"


def test_cost_model_fitted_at_a_far_distance_subtracts_the_measured_round_trip_time() -> None:
    plan = plan_of(TRANSPORT, "default", "distance=us-us")
    model = fake_result(plan, TransportTruth(), rounds=12, noise=Noise(0.0001)).sections.cost_model
    own = next(c.own_ms for c in model.operations if c.protection == "tls" and c.operation == "connection")
    assert own.low <= OWN["tls"] <= own.high
    assert own.value == pytest.approx(OWN["tls"], abs=0.1)


def test_report_of_a_run_with_a_fixed_number_of_rounds_names_no_budget() -> None:
    plan = LAN.model_copy(update={"precision": None, "budget_seconds": None, "fewest_rounds": 6, "most_rounds": 6})
    result = fake_result(plan, TransportTruth(), rounds=6, noise=Noise(0.1))
    assert (result.rounds, result.requested_rounds, result.target_precision) == (6, 6, None)
    text = spaced(render_markdown(result))
    assert "exactly 6 rounds" in text
    assert " more (--rounds " in text
    assert not [words for words in ("end of its budget", "--budget") if words in text]


def test_report_names_the_measurements_that_were_shortened(tmp_path: Path) -> None:
    ledger = fake_run(tmp_path / "run", LAN, TransportTruth(), rounds=3)
    ledger.append(SizesRecord(slices={**LAN.slices, "query_1": LAN.slices["query_1"].times(0.25)}))
    result = analyse(ledger)
    assert result.slice_shares == {**dict.fromkeys(LAN.slices, 1.0), "query_1": 0.25}
    text = spaced(render_markdown(result)).replace("\\", "")
    assert "Each window of the workload “point selects on 1 connection” took 25 % of the planned time." in text


def test_only_the_arm_that_the_server_refuses_has_an_error() -> None:
    result = fake_result(LAN, TransportTruth(), refused={"tls": "it speaks no TLS"})
    errors = {arm.name: arm.error for arm in result.arms}
    assert (errors["tls"], errors["plain"]) == ("it speaks no TLS", None)
    assert {effect.arm for effect in result.effects} == {"ssh-aes256-ctr"}


def test_report_has_figures_but_no_effects_if_the_server_refuses_the_control() -> None:
    result = fake_result(LAN, TransportTruth(), refused=dict.fromkeys(("plain", "plain-copy"), "it requires TLS"))
    assert not result.effects
    assert any(value.arm == "tls" for value in result.values)
    assert any("control cannot run" in warning for warning in result.warnings)
    answer = " ".join(sentence.text for sentence in result.answer)
    assert " is unknown, because plain could not be measured." in answer
    assert "A new connection with TLS (modern suite, rsa-2048) takes " in answer


def test_run_counts_as_complete_even_if_the_tunnel_of_an_arm_ended(tmp_path: Path) -> None:
    ledger = fake_run(tmp_path / "run", LAN, TransportTruth())
    ledger.append(LostRecord(arm="ssh-aes256-ctr", detail="its tunnel ended"))
    result = analyse(ledger)
    assert [arm.error for arm in result.arms if arm.error] == ["its tunnel ended"]
    assert any("its tunnel ended" in warning for warning in result.warnings)
    assert result.partial is None


def test_killed_run_has_a_partial_report_unless_nothing_was_measured(tmp_path: Path) -> None:
    ledger = Ledger.create(LAN, tmp_path / "run")
    with pytest.raises(CostofError) as caught:
        analyse(ledger)
    assert caught.value.message is ErrorText.NOTHING_MEASURED
    ledger.append(EnvironmentRecord(started="2026-01-01T00:00:00+00:00", facts={}))
    assert analyse(ledger).partial == "the process was killed, or is still running"


HTTP_PLAN = plan_of(HTTP, "default")


@cache
def balanced() -> Result:
    return fake_result(HTTP_PLAN, HttpTruth(), rounds=ROUNDS)


def truth_of(arm: str) -> http.TrueCost:
    return HttpTruth().true_cost(HTTP_PLAN.arm(arm))


def test_rate_of_a_measurement_is_operations_divided_by_time() -> None:
    rate = value_of(balanced(), "wire.requests_per_second", "balancer")
    assert near(rate.mean, truth_of("balancer").per_second)
    assert rate.operations == ROUNDS * http.OPERATIONS
    # A higher percentile belongs to slower requests, and so to a lower rate.
    assert rate.percentiles["p50"] >= rate.percentiles["p99"] >= rate.percentiles["max"]
    burst = value_of(balanced(), "wire.burst", "balancer")
    assert near(burst.mean, truth_of("balancer").burst_ms)
    assert burst.percentiles["p50"] <= burst.percentiles["max"]


def test_mitigations_have_the_simulated_gains_and_the_best_mitigation_is_first() -> None:
    section = balanced().sections.mitigations
    assert [each.label for each in section.mitigations][:: len(section.mitigations) - 1] == [
        "keep-alive for 100 requests a connection",
        "TLS on both sides",
    ]
    assert {each.label for each in section.mitigations} >= {
        "session resumption",
        "an ECDSA key",
        "a balancer of 0.5 cores",
    }
    gains = [each.gain.value for each in section.mitigations]
    assert gains == sorted(gains, reverse=True)
    assert (section.reference, section.control, len(gains)) == ("balancer", "none", 8)
    reference = truth_of("balancer").per_second
    for each in section.mitigations:
        better = truth_of(each.arm).per_second
        assert near(each.gain, better / reference), each
        assert near(each.recovered, (better - reference) / (truth_of("none").per_second - reference)), each
        assert each.verdict is (Verdict.COSTS if better < reference else Verdict.SAVES)


def test_mitigation_has_no_recovered_share_if_the_protection_costs_nothing() -> None:
    free = fake_result(plan_of(HTTP), HttpTruth(dict.fromkeys(http.HANDSHAKE_MS, 0.0)))
    each = free.sections.mitigations.mitigations[0]
    # Keep-alive still raises the rate of requests, because the balancer opens fewer connections.
    assert (each.recovered, each.verdict) == (None, Verdict.SAVES)
    text = spaced(" ".join(each.text for each in free.answer))
    assert " of what " not in text
    assert "keep-alive for 100 requests a connection raises 'requests a second' by " in text.lower()


def test_clients_per_core_match_the_simulated_cpu_time() -> None:
    sizing = {each.arm: each for each in balanced().sections.sizing}
    assert set(sizing) == {"balancer", "reencrypt", "backend", "balancer-resumption-on", "balancer-ecdsa-p256"}
    for name, each in sizing.items():
        assert near(each.cpu_ms, truth_of(name).client_ms)
        assert near(each.clients_per_core_second, 1e3 / truth_of(name).client_ms)
        assert near(each.added_cpu_ms, truth_of(name).client_ms - truth_of("none").client_ms)
    ten = next(e for e in sizing["balancer"].examples if (e.clients, e.seconds) == (10_000, 10.0))
    assert near(ten.cores, 10_000 * truth_of("balancer").client_ms / 1e3 / 10)


def test_duration_of_a_burst_of_connections_is_predicted_for_other_numbers_of_cores() -> None:
    checks = {check.arm: check for each in balanced().sections.sizing for check in each.checks}
    assert {"balancer", "balancer@balancer_cpu-0.5", "balancer@balancer_cpu-1"} <= set(checks)
    assert not any("keep_alive" in name for name in checks)
    for name, check in checks.items():
        assert (check.clients, check.cores) == (http.IN_FLIGHT, truth_of(name).cores)
        assert near(check.measured_seconds, truth_of(name).burst_ms / 1e3)
        assert check.predicted_seconds.value == pytest.approx(truth_of(name).burst_ms / 1e3, rel=0.02)


def test_shares_of_throttled_and_stolen_cpu_time_match_the_simulation() -> None:
    cpu = next(each for each in balanced().cpu if (each.workload, each.arm) == ("request", "balancer"))
    assert cpu.throttled["balancer"] == pytest.approx(0.8 - truth_of("balancer").cores, abs=0.02)
    assert cpu.steal == pytest.approx(0.02 / (http.OPERATIONS / truth_of("balancer").per_second * 2), rel=0.05)


def test_published_figures_are_shown_only_for_the_arm_with_their_settings() -> None:
    shown = {arm.name for arm in balanced().arms if balanced().published_for("wire.requests_per_second", arm)}
    assert shown == {"balancer"}
    places = {arm.at for arm in balanced().arms}
    assert places >= {" with keep-alive for 100 requests a connection", " with a balancer of 1 core"}
    text = " ".join(each.text for each in balanced().answer)
    assert not [words for words in ("at keep_alive", "at balancer_cpu") if words in text]


def test_report_says_that_the_effect_of_a_mitigation_is_unresolved() -> None:
    plan = plan_of(HTTP, "quick", "key=rsa-2048,ecdsa-p256").model_copy(update={"precision": None})
    texts = {each.text for each in fake_result(plan, HttpTruth(), rounds=2).answer}
    assert "This run cannot tell what keep-alive for 100 requests a connection and an ECDSA key recover." in texts
    assert not any("No mitigation" in text for text in texts)


def test_report_says_that_a_mitigation_recovers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "CHEAPER", {})
    plan = plan_of(HTTP, "quick", "key=rsa-2048,ecdsa-p256", "keep_alive=1")
    texts = {each.text for each in fake_result(plan, HttpTruth(), rounds=16).answer}
    assert "No mitigation recovers anything: an ECDSA key recovers nothing measurable." in texts


def test_report_warns_of_certificates_that_are_not_verified() -> None:
    (text,) = sentence_texts(
        fake_result(plan_of(HTTP, "quick", "verify=none"), HttpTruth(), rounds=2).answer, "warning"
    )
    assert text.startswith("no certificate was verified with TLS at the balancer")


def test_ab_section_of_the_report_has_connect_time_0_for_requests_on_open_connections() -> None:
    figures = {each.arm: each for each in balanced().sections.ab}
    assert not any("replicate" in name for name in figures)
    kept, closed = figures["balancer@keep_alive-100"], figures["balancer"]
    assert closed.complete == kept.complete == ROUNDS * http.OPERATIONS
    assert kept.keep_alive > closed.keep_alive == 0
    assert kept.times["connect"].min == kept.times["connect"].median == 0 < closed.times["connect"].min
    for each in figures.values():
        parts = each.times["connect"].mean + each.times["processing"].mean
        assert each.times["total"].mean == pytest.approx(parts, rel=1e-4)
        assert each.requests_per_second == pytest.approx(each.complete / each.seconds)
        assert each.kbytes_per_second == pytest.approx(each.requests_per_second * 140 / 1024)


CPU = {"cpu.client": "client", "cpu.gateway": "gateway", "cpu.server": "server"}
TPCC_PLAN = plan_of(ENCRYPTION, "quick", "terminals=8,16")
SHARES = ("encrypting 20 % of the columns", "encrypting 100 % of the columns")


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    return fake_run(tmp_path_factory.mktemp("tpcc") / "run", TPCC_PLAN, EncryptionTruth(), rounds=ROUNDS)


@pytest.fixture(scope="module")
def encrypted(ledger: Ledger) -> Result:
    return analyse(ledger)


def encryption_of(arm: str) -> encryption.TrueCost:
    return EncryptionTruth().true_cost(TPCC_PLAN.arm(arm))


def test_rates_and_bytes_and_cpu_time_of_encryption_match_the_simulation(encrypted: Result) -> None:
    for arm in ("0", "direct", "20", "100"):
        true = {metric: encryption_of(arm).cpu_ms[role] for metric, role in CPU.items()}
        # One of 200 operations is a New-Order that is rolled back, which does not count as a transaction.
        true["wire.transactions_per_second"] = encryption_of(arm).per_second * 0.995
        true["wire.queries_per_second"] = encryption_of(arm).per_second * encryption.STATEMENTS
        true |= {"wire.bytes": encryption_of(arm).bytes, "server.bytes": encryption.BYTES}
        assert [name for name, each in true.items() if not near(value_of(encrypted, name, arm).mean, each)] == []


def test_cost_of_each_step_in_a_breakdown_equals_its_simulated_cost(encrypted: Result) -> None:
    for context in ("", "terminals-16"):
        steps = [step for step in encrypted.sections.breakdown if step.context == context]
        assert [step.label for step in steps] == ["the gateway's presence", *SHARES]
        for step in steps:
            before, after = encryption_of(step.start), encryption_of(step.end)
            total = sum(after.cpu_ms.values()) - sum(before.cpu_ms.values())
            assert near(step.ratio, after.per_second / before.per_second)
            assert near(step.total, total)
            for part in step.parts:
                added = after.cpu_ms[CPU[part.metric]] - before.cpu_ms[CPU[part.metric]]
                assert near(part.added, added), part
                assert near(part.share, added / total), part
            at_client, at_server = step.beside
            assert near(at_client.added, after.bytes - before.bytes)
            assert (at_server.added.value, at_client.share) == (0, None)
    presence = encrypted.sections.breakdown[0]
    assert (presence.start, presence.end) == ("direct", "0")


def test_step_that_adds_no_cost_has_no_share_in_the_breakdown_of_a_cost() -> None:
    truth = EncryptionTruth(dict.fromkeys(encryption.ENCRYPTED, 0.0))
    free = fake_result(plan_of(ENCRYPTION), truth, rounds=ROUNDS, noise=Noise(0.03))
    step = next(step for step in free.sections.breakdown if step.label == SHARES[0])
    assert step.total.low < 0 < step.total.high
    assert all(part.share is None for part in step.parts)
    blocks = BREAKDOWN.blocks(Index(free), free.sections.breakdown)
    assert " is unresolved: " in " ".join(block.text for block in blocks if isinstance(block, Paragraph))


@pytest.mark.parametrize(
    ("high", "text"),
    [(1.04, "makes no difference above 5 % to"), (1.06, "has an unresolved effect on"), (0.99, "lowers")],
)
def test_sentence_about_one_step_of_a_cost_breakdown_agrees_with_the_interval_of_the_step(
    encrypted: Result, high: float, text: str
) -> None:
    (step, *_) = encrypted.sections.breakdown
    ratio = step.ratio.model_copy(update={"value": 0.97, "low": 0.93 if high < 1 else 0.96, "high": high})
    data = [step.model_copy(update={"ratio": ratio})]
    blocks = BREAKDOWN.blocks(Index(encrypted), data)
    assert text in " ".join(block.text for block in blocks if isinstance(block, Paragraph)).replace("\u00a0", " ")


def test_report_summary_has_the_cost_of_the_gateway_and_the_cost_of_encrypting_all_columns(encrypted: Result) -> None:
    texts = sentence_texts(encrypted.answer, "answer")
    assert not any("no gateway" in text.lower() for text in texts)
    assert any(text.startswith("The gateway's presence lowers ") and " driver (client)" in text for text in texts)
    assert any(text.startswith("Encrypting 100 % of the columns lowers ") for text in texts)


def test_tpcc_tables_show_published_figures_beside_measured_figures(encrypted: Result) -> None:
    blocks = [*SWEEP.blocks(Index(encrypted), encrypted.sections.sweep)]
    tables = [each for each in blocks if isinstance(each, Table)]
    assert [each.title.partition(":")[0] for each in tables] == ["no gateway", *SHARES]
    rows = [[spaced(cell.text) for cell in row.cells] for row in tables[1].rows]
    assert [(row[0], row[4:]) for row in rows] == [
        ("8", ["260.55 → 237.64 (8.79 %)"]),
        ("16", ["302.78 → 280.28 (7.43 %)"]),
    ]
    assert tables[0].columns[-1].text == "loss", "there are no published figures for a gateway without rules"
    overhead = effect_of(encrypted, "wire.transactions_per_second", "20").ratio
    assert near(overhead, encryption_of("20").per_second / encryption_of("0").per_second)
    assert rows[0][3] == spaced(fmt.loss(overhead).value)
    (cited,) = (each for each in blocks if isinstance(each, Paragraph))
    assert "published figures" in cited.text


def test_counts_of_encrypted_values_in_the_evidence_include_the_warm_up(encrypted: Result, ledger: Ledger) -> None:
    arm = next(arm for arm in encrypted.arms if arm.name == "100")
    facts = {name: fact for evidence in arm.evidence for name, fact in evidence.facts.items()}
    slices = [record for record in ledger.records() if isinstance(record, SliceRecord) and record.answer.arm == "100"]
    assert any(record.warm_up for record in slices)
    done = f"{sum(encryption_of('100').values(record.answer.operations) for record in slices):,}"
    assert (facts["values encrypted by the gateway"], facts["values decrypted by the driver"]) == (done, done)
    # Evidence from before and after the run is in one list.
    assert (facts["columns encrypted"], facts["consistency"]) == ("100%", "conditions 1 to 12 held")


@cache
def replicated(profile: str = "quick", target: str | None = None) -> Result:
    return fake_result(plan_of(REPLICATION, profile, target=target), ReplicationTruth())


def test_report_names_arms_that_have_the_same_replication_tree_as_the_control() -> None:
    result = replicated("published")
    text = next(
        text for text in sentence_texts(result.answer, "answer") if text.startswith("With w:1, use 'chaining allowed'")
    )
    assert "from 15 nodes on" in text
    assert "at 3 and 7 nodes, where its servers replicated in the same tree as the control's" in text
    same = {arm.name: arm.same_set_up for arm in result.arms}
    assert (same["natural"], same["natural@nodes-15"], same["chain"]) == (["star"], [], [])


def test_measurement_with_a_changed_replication_tree_is_discarded_and_counted() -> None:
    discarded = {tree.arm: tree.discarded for tree in replicated().sections.sync_tree if tree.discarded}
    assert discarded == {"chain@nodes-7": 1}
    effect = effect_of(replicated(), "wire.operations_per_second", "chain@nodes-7")
    assert (effect.rounds, effect.verdict) == (7, Verdict.SAVES)
    assert any(replication.CHANGED in warning for warning in replicated().warnings)


def test_figures_that_the_servers_report_become_metrics() -> None:
    hops = value_of(replicated(), "server.hops_to_majority", "chain@nodes-7")
    assert (hops.mean.value, hops.percentiles["max"]) == (3.0, 3.0)
    evidence = next(arm for arm in replicated().arms if arm.name == "chain").evidence
    assert [item.facts for item in evidence if item.view == "server"] == [
        {"tree": "primary: secondary-1; secondary-1: hidden"}
    ]


def test_recommendation_about_an_arm_without_a_cost_says_what_was_measured() -> None:
    result = replicated()
    effects = [effect.model_copy(update={"verdict": Verdict.NO_COST}) for effect in result.effects]
    data = result.sections.recommendations
    assert data is not None
    index = Index(result.model_copy(update={"effects": effects}))
    texts = sentence_texts(RECOMMENDATIONS.answer(index, data), "answer")
    said = r"a chain does not lower 'operations a second' by more than 5 % at .+ nodes \(measured: [+−].+ %"
    assert re.search(said, " ".join(texts))


def test_report_on_a_users_replica_set_recommends_no_replication_tree() -> None:
    result = replicated(target="mongodb://h")
    (text,) = sentence_texts(result.answer, "answer")
    assert "Write concern majority" in text
    assert result.sections.recommendations is None
    assert {tree.arm for tree in result.sections.sync_tree} == {"1", "1-copy", "majority"}


@pytest.mark.parametrize(
    ("followers", "words"),
    [
        ("primary: a, b", "all 2 others replicate from primary"),
        ("primary: a; a: b", "primary → a → b"),
        ("primary: a, b; b: c", "primary: a, b; b: c"),
        ("10.0.0.1:27017: 10.0.0.2:27017", "10.0.0.1:27017 → 10.0.0.2:27017"),
        ("a: b; b: a", "a → b"),
    ],
)
def test_shape_of_a_replication_tree_is_described_in_words(followers: str, words: str) -> None:
    assert shape(Tree(arm="natural", followers=followers_of(followers), slices=1)) == words


def test_picture_of_a_replication_tree_places_members_next_to_their_sources() -> None:
    positions = places(Tree(arm="", followers=followers_of("primary: a, b; b: c, d; x: y; y: x"), slices=1))
    depths = {name: depth for name, (_, depth) in positions.items()}
    assert {name: depths[name] for name in ("primary", *"abcd")} == {"primary": 0, "a": 1, "b": 1, "c": 2, "d": 2}
    across = {name: x for name, (x, _) in positions.items()}
    assert across["a"] < across["b"] == (across["c"] + across["d"]) / 2
    assert positions.keys() == {"primary", "a", "b", "c", "d", "x", "y"}
    short = ["P", "S1", "S2", "S3", "S4", "S5", "H", *(f"R{number}" for number in range(1, 9))]
    assert [initials(name) for name in replication.members(15)] == short
    assert initials("10.0.0.2:27017") == "10.0.0.2:27017"


def test_report_explains_a_tls_1_3_handshake_with_a_second_round_trip() -> None:
    plan = plan_of("postgres-tls", "quick", "transport=plain,tls", "group=first-choice")
    result = fake_result(plan, PostgresTruth(), rounds=2)
    assert [each.arm for each in result.sections.hello_retry] == ["tls"]
    (block,) = HELLO_RETRY.blocks(Index(result), result.sections.hello_retry)
    assert isinstance(block, Paragraph)
    assert "the TLS handshake takes 2 round trips, although TLS 1.3 usually needs only 1" in block.text
    (advice,) = HELLO_RETRY.answer(Index(result), result.sections.hello_retry)
    text = "needs 1 round trip fewer if the server accepts the key exchange X25519, which most clients offer first"
    assert text in advice.text
