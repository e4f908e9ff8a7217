"""kill -9, thousands of times: nothing acknowledged is lost, nothing is done twice.

A trial is one or more *lives*: processes that talk to an engine, delete a conversation, import a file, replay a spool
or migrate a ledger, alone or beside another process, and are killed at a random moment or at a named boundary. What a
life was acknowledged it reports through a pipe, before anything else happens; that *account* is all that is known of it
afterwards. Then another process opens the same data_dir and everything the account holds is looked for. A data_dir
serves a *generation* of trials, so that crashes pile up, and is then thrown away.

    script       what is said and answered        plans    who is killed where
    traps        how a process kills itself       life     what a process does until then
    account      what was acknowledged to it      trial    one trial: lives, kills, the check
    inspection   what must hold in the ledger     check    recovery, twice, and the next message
    lane         a generation after the other     tally    the report
    old_ledger   what is migrated

``python -m benchmarks.torture --trials 10000`` is the figure of the design.
"""
