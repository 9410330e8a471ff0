

def test_label_is_quoted_unless_it_is_a_short_noun_phrase() -> None:
    labels = ("plain", "a chain", "a flush and a copy")
    assert [*map(fmt.in_quotes, labels)] == ["'plain'", "a chain", "'a flush and a copy'"]
