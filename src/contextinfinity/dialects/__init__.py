"""Vendor APIs that we serve: parse their clients' requests and write their responses, without I/O."""
