"""Going on while the ledger is away: locked by another process for too long, or failing to read or write.

breaker     notices it, and keeps everybody else from waiting for it
spool       the durable file that holds what is said meanwhile
records     what stands in that file
memory      what this process has seen lately, where the ledger cannot even be read
seeding     the small ledger in memory that a branch goes on in
branch      one branch that goes on without the ledger
holding     all of them
landing     their way into the ledger
replay      the spools of all processes, written into the ledger before a branch takes its next message
returning   asks for the ledger, and lets them land
nouns       the verbs of the ledger that go on without it
trails      matching of resent messages, after a replay
deleting    deletions, of which everything here is told
arriving    imports, which follow what is held
store       the ``Store`` that is put together from these
"""
