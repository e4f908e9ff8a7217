"""kill -9, thousands of times: nothing acknowledged is lost, nothing is done twice.

A trial runs one or more workloads: processes that talk to an engine, delete a conversation, import a file, replay a
spool or migrate a ledger, alone or beside another process, and are killed at a random moment or at a named
boundary. A workload reports what was acknowledged to it through a pipe, before it does anything else; these
observations are all that is known of it afterwards. Then another process opens the same data_dir and checks it
against the observations. A data_dir serves a *generation* of trials, so that crashes pile up, and is then deleted.

    script         messages and their answers         plans      where each process is killed
    kill_points    how a process kills itself         workload   what a process does until then
    observations   what was acknowledged              trial      one trial: workloads, kills, the check
    inspection     what must hold in the ledger       check      recovery, twice, and the next message
    lane           one generation after the other     tally      the report
    old_ledger     the ledger that is migrated

``python -m benchmarks.torture --trials 10000`` is the figure of the design.
"""
