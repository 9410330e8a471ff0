"""What a busy machine does to a set that forms: its primary is deposed, and elected again."""

from __future__ import annotations

import pytest
from pymongo.errors import NotPrimaryError, OperationFailure

from costof.programs.mongod.replica_set import in_office, suppress_if_made


def test_what_a_deposed_primary_refuses_is_asked_again() -> None:
    answers = [NotPrimaryError("not primary"), None]

    def action() -> None:
        if (error := answers.pop(0)) is not None:
            raise error

    assert [in_office(action), in_office(action)] == [False, True]


@pytest.mark.parametrize(("code", "refused"), [(13, False), (51003, False), (18, True)])
def test_a_user_that_the_first_attempt_has_made_is_no_error(code: int, refused: bool) -> None:
    def again() -> None:
        with suppress_if_made():
            raise OperationFailure("refused", code)

    if refused:
        with pytest.raises(OperationFailure):
            again()
    else:
        again()
