"""Output in the layout of ab (ApacheBench)."""

from __future__ import annotations

from costof.cli.ab import AbRequest, render_ab
from costof.messages.answers import SliceAnswer
from costof.results.ab_figures import ab_figures
from tests.fake_run import Slice, answer_of, error_of, phase_of
from tests.report.results import Golden
from tests.truths.http_tls_termination import counts_of


def answer(operations: int, tls: bool) -> SliceAnswer:
    times = {"connect": 1.2, "waiting": 201.0, "processing": 202.0, "request": 203.2} | ({"tls": 1.0} if tls else {})
    opened = max(1, operations // 100)
    phases = {name: phase_of(ms, opened if name in ("connect", "tls") else operations) for name, ms in times.items()}
    counts = counts_of(operations, operations - opened)
    measured = Slice(operations, 1.07, phases, {}, {"connections": opened, "body_length": 2}, counts=counts)
    return answer_of(measured, "request", "url")


def test_output_of_ab_matches_the_golden_file(golden: Golden) -> None:
    measured = answer(1000, tls=True)
    counts = measured.counts | {"http.status.200": 990, "http.status.404": 10, "http.other_length": 10}
    late = [error_of("timeout", "no answer within 10,000 ms", 3)]
    figures = ab_figures("url", "request", 200, [measured.model_copy(update={"counts": counts, "errors": late})])
    assert figures is not None
    request = AbRequest(
        host="shop.example",
        port=443,
        path="/?wait=200",
        keep_alive=True,
        software="nginx/1.22.1",
        tls="TLSv1.3,TLS_AES_256_GCM_SHA384,rsa-2048",
        server_name="shop.example",
    )
    golden("ab.txt", render_ab(request, figures))


def test_ab_report_of_a_single_request_has_no_percentiles() -> None:
    figures = ab_figures("url", "request", 1, [answer(1, tls=False)])
    assert figures is not None
    text = render_ab(AbRequest("h", 80, "/", False, None, None), figures)
    for word in ("Percentage of the requests", "SSL/TLS", "Keep-Alive"):
        assert word not in text
