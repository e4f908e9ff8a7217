"""One face of the engine for all doors.

``contract`` says what a client can do, by noun; ``values`` what it gives; ``local`` does it with an engine in this
process. A door that keeps to the contract works as well with an engine elsewhere.
"""
