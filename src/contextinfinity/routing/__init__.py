"""Which model answers a request: values in, values out; no message is changed, nothing is asked of anybody."""
