"""What every study keeps. One joins by its file in `costof/studies/`, with no line here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from costof.report.sections import check
from costof.studies import study_names
from costof.study.library import load_study
from costof.study.plan import Options, Plan, resolve
from costof.study.schema import Study


@pytest.fixture(params=study_names())
def study(request: pytest.FixtureRequest) -> Study:
    return load_study(request.param)


def plans(study: Study) -> Iterator[Plan]:
    return (resolve(study, Options(profile=profile)) for profile in study.profiles)


def test_the_sections_understand_what_it_asks_them(study: Study) -> None:
    check(study)


def test_each_context_has_a_control_a_twin_and_an_arm_at_the_least(study: Study) -> None:
    for plan in plans(study):
        contexts = {arm.context for arm in plan.arms}
        assert len(plan.controls) == len(contexts) == [arm.replicate for arm in plan.arms].count(True)
        assert len({arm.name for arm in plan.arms}) == len(plan.arms) >= 3 * len(contexts)


def test_an_arm_asks_for_something_else_than_its_control_and_a_twin_for_the_same(study: Study) -> None:
    """What it asks for is what its slices have to prove: two arms that ask for the same would be one."""
    for plan in plans(study):
        control = {arm.context: arm for arm in plan.controls}
        for arm in plan.arms:
            same = arm.settings == control[arm.context].settings
            assert same == (arm.control or arm.replicate), arm.name
