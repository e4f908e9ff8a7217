"""Choose the model that answers a request; a pure computation that changes nothing."""
