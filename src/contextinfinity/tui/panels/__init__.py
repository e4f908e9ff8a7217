"""The panels beside the conversation, one a file; ``panel_table`` lists them."""
