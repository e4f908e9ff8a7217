"""Text for a terminal: Markdown as styled lines, and without the characters that would control it."""
