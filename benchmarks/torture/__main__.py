"""``python -m benchmarks.torture``: kill, recover, check, again and again."""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import sys
from contextlib import suppress
from pathlib import Path

from benchmarks import report
from benchmarks.torture.lane import Job, run_lanes
from benchmarks.torture.plans import sample, schedule
from benchmarks.torture.tally import Tally
from contextinfinity.engine.lazy_modules import load_all
from contextinfinity.storage.encryption.key_sources import VARIABLE, new_key

EVERY = 100


def main() -> int:
    """Read the arguments, run, report; 1 when anything was wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.torture", description=__doc__)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--starts", type=int, default=20, help="how many trials are whole process starts")
    parser.add_argument("--lanes", type=int, default=2, help="how many trials run at once")
    parser.add_argument("--only", type=int, metavar="GENERATION", help="run one generation of a seed again")
    parser.add_argument("--folder", type=Path, help="where data_dirs are made; default: in memory and on disk")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the report there: .json or text")
    parser.add_argument("--save", action="store_true", help="keep the result in benchmarks/results, for docs/proof.md")
    parser.add_argument("--sample", action="store_true", help="a sixth of the boundaries and one of everything else")
    parser.add_argument("--encrypted", action="store_true", help="encrypt the data_dirs, and look for readable text")
    arguments = parser.parse_args()
    if arguments.encrypted:
        os.environ[VARIABLE] = new_key()
    starts = arguments.starts
    plans = sample(arguments.seed, starts) if arguments.sample else schedule(arguments.seed, arguments.trials, starts)
    job = Job(seed=arguments.seed, plans=plans, folder=arguments.folder, encrypted=arguments.encrypted)
    print(f"seed {job.seed}, {len(job.plans)} trials", file=sys.stderr, flush=True)
    tally = Tally(job.seed, len(job.plans))
    load_all()
    gc.freeze()  # children share what is there and need not copy it
    with suppress(KeyboardInterrupt):  # the report is of the trials that were done until then
        for done, result in enumerate(run_lanes(job, arguments.lanes, arguments.only), start=1):
            tally.add(result)
            if result.violations:
                print(tally.describe(result), file=sys.stderr, flush=True)
            elif done % EVERY == 0:
                print(f"{done} of {len(job.plans)}", file=sys.stderr, flush=True)
    page = tally.page()
    print(page)
    if arguments.report:
        as_json = json.dumps(tally.as_json(), indent=2, ensure_ascii=False)
        arguments.report.write_text(as_json if arguments.report.suffix == ".json" else page, encoding="utf-8")
    if arguments.save:
        report.save_proof("torture", [tally.row()])
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
