"""Blocks (paragraphs, tables, figures), and how terminal, Markdown and HTML render them."""
