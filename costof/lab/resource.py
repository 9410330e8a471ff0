"""What a lab, its topology and a service share: each is a context manager that is made of others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import ExitStack
from types import TracebackType
from typing import Self


class Resource(ABC):
    """`_open` enters on a stack what this is made of. All of it is left in reverse order, at the end or where opening
    fails half-way."""

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._open(stack)
            self._leave = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave.close()

    @abstractmethod
    def _open(self, stack: ExitStack) -> None:
        """Raises `CostofError`."""
