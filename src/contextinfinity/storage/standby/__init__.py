"""Going on while the ledger is away: locked by another process for too long, or failing to read or write.

breaker   notices it, and keeps everybody else from waiting for it
spool     the durable file that holds what is said meanwhile
records   what stands in that file
memory    what this process has seen lately, where the ledger cannot even be read
branch    one branch that goes on without the ledger
holding   all of them: goes away, comes back, lands what was held
nouns     the verbs of the ledger that go on without it
store     the ``Store`` that is put together from these
"""
