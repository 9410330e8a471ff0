"""What goes between this process and those that measure: JSON lines over standard input and output."""
