"""What users need to test against ContextInfinity: conformance suites and builders."""
