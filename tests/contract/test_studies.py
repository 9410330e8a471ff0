"""Tests that every study in `costof/studies/` must pass."""

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


def test_each_study_has_valid_settings_for_the_sections_of_its_report(study: Study) -> None:
    check(study)


def test_each_distance_or_size_has_two_identical_controls_and_a_protected_arm(study: Study) -> None:
    for plan in plans(study):
        contexts = {arm.context for arm in plan.arms}
        assert len(plan.controls) == len(contexts) == [arm.replicate for arm in plan.arms].count(True)
        assert len({arm.name for arm in plan.arms}) == len(plan.arms) >= 3 * len(contexts)


def test_copy_of_the_control_has_the_same_settings_and_every_protected_arm_has_other_settings(study: Study) -> None:
    for plan in plans(study):
        control = {arm.context: arm for arm in plan.controls}
        for arm in plan.arms:
            same = arm.settings == control[arm.context].settings
            assert same == (arm.control or arm.replicate), arm.name
