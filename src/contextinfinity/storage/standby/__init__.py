"""Continues while the ledger is unavailable: locked by another process for too long, or failing to read or write.

breaker         the circuit breaker in front of a database: notices an outage, and keeps requests from waiting for it
recent          a cache of recently used conversations, for when the ledger cannot even be read
spool           the durable file of a process, a journal; reads those of the first release too
held_branch     one branch that continues without the ledger
held_branches   all of them
spool_replay    writes the spools of all processes into the ledger
away_operations the operations that behave differently meanwhile
store           the ``Store`` assembled from these, and the task that reconnects
"""
