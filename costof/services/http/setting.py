"""What an arm of an HTTP study asks of the lab's servers."""

from __future__ import annotations

from typing import Self

from costof.model import Model
from costof.study.arms import PlannedArm


class Setting(Model):
    """`direct`: past the balancer. `balancer` is a program's name, `balancer_cores` its CPU share, `key` the kind of
    key where TLS ends."""

    direct: bool = False
    tls_at_balancer: bool = False
    tls_at_origin: bool = False
    key: str | None = None
    balancer: str | None = None
    balancer_cores: float | None = None

    @classmethod
    def of(cls, arm: PlannedArm) -> Self:
        return cls.model_validate(arm.asked.lab)
