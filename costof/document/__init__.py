"""How things are said and drawn: numbers, colours, figures."""
