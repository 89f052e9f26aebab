#!/usr/bin/env python3
"""Reads tables while a publisher changes them, and reads their earlier snapshots.

    snapshots.py PARSIMON LAKE OLD PLACE [CATALOG]

PARSIMON is the program. OLD is a lake of an older version, whose table hop_contributions lacks a column. LAKE has the
scenarios seed-1, with two variants, and seed-2. PLACE is an empty s3://BUCKET/PREFIX, and CATALOG is rest:URL. The lakes
are published there in steps: OLD, seed-1, seed-2, another variant of seed-1, and LAKE without seed-2, which also removes
OLD. All readers read during all steps.

Each reading must be the state of a table before or after a step, and no reader may go back. A scenario that a reader
finds in table scenarios must have its flows. Afterwards, each reader must find each state in its snapshot, the rows that
are older than a column must lack it, and snapshots that are older than the column must be as they were.
"""
import json
import os
import subprocess
import sys
import threading
import traceback

import pyarrow.fs

from engines import READERS, plain, published

GROWN, COLUMN = "hop_contributions", "case_delay_ns"

# What readers ask about each table that is read while it changes.
SUMMARIES = {
    "scenarios": "SELECT scenario, flows, seed FROM scenarios ORDER BY scenario",
    "slowdowns": """
        SELECT scenario, variant, COUNT(*) AS flows, SUM(fct_ns) AS fct_ns, MAX(slowdown) AS worst FROM slowdowns
        GROUP BY scenario, variant ORDER BY scenario, variant""",
}
OF_GROWN = f"SELECT scenario, COUNT(*) AS n, SUM(link_id) AS ids FROM {GROWN} GROUP BY scenario ORDER BY scenario"
OF_COLUMN = f"SELECT scenario, COUNT({COLUMN}) AS n FROM {GROWN} GROUP BY scenario ORDER BY scenario"


class Failure(Exception):
    """What should not be."""


def check(holds, text):
    if not holds:
        raise Failure(text)


class Lake:
    """A lake and the place where it is published."""

    def __init__(self, program, path, *place):
        self.program = program
        self.path = path
        self.place = place

    def run(self, *args):
        done = subprocess.run([self.program, *args, "--lake", self.path], capture_output=True, text=True)
        check(done.returncode == 0, f"parsimon {' '.join(args)}: {done.stderr}")
        return done.stdout

    def publish(self, *args):
        catalog = ["--catalog", self.place[1]] if self.place[1:] else []
        self.run("publish", self.place[0], "--quiet", *catalog, *args)

    def rows(self, sql):
        return [list(row.values()) for row in json.loads(self.run("query", "--sql", sql, "--format", "json"))]

    def id(self, name):
        return self.rows(f"SELECT scenario FROM scenarios WHERE name = '{name}'")[0][0]


class Steps:
    """The steps of the publisher, and the states of the tables after them."""

    def __init__(self, program, lake, old, *place):
        self.lake = Lake(program, lake, *place)
        self.old = Lake(program, old, *place)
        self.files = published(place[-1])
        self.seeds = [self.lake.id("seed-1"), self.lake.id("seed-2")]
        self.published = set()
        self.states = []  # for each step, the expected answer of each table
        self.grown_before = self.old.rows(OF_GROWN)
        self.old_scenarios = {row[0] for row in self.grown_before}

    def first(self):
        """Publishes the older lake, as a program of its version would have."""
        self.old.publish()
        self.forget_column()
        self.states.append({table: self.old.rows(sql) for table, sql in SUMMARIES.items()})

    def forget_column(self):
        """Removes the column from the metadata of its table. The data files do not have it."""
        path = self.files.metadata(GROWN)
        metadata = json.loads(self.files.read(path))
        for schema in metadata["schemas"]:
            schema["fields"] = [f for f in schema["fields"] if f["name"] != COLUMN]
        mapping = json.loads(metadata["properties"]["schema.name-mapping.default"])
        mapping = [m for m in mapping if m["names"] != [COLUMN]]
        metadata["properties"]["schema.name-mapping.default"] = json.dumps(mapping)
        s3 = pyarrow.fs.S3FileSystem(
            access_key=self.files.s3["s3.access-key-id"], secret_key=self.files.s3["s3.secret-access-key"],
            region="us-east-1", scheme="http", endpoint_override=self.files.s3["s3.endpoint"].removeprefix("http://"))
        with s3.open_output_stream(path.removeprefix("s3://"), compression=None) as f:
            f.write(json.dumps(metadata).encode())

    def rest(self):
        """Yields after each step. The expected state after a step is known before the step begins."""
        for seed in self.seeds:
            self.expect(self.old_scenarios | self.published | {seed})
            self.published.add(seed)
            self.lake.publish("--scenario", seed)
            yield
        before = self.states[-1]
        self.lake.run("run", "small", "--seed", "1", "--set", "workload.duration=5ms", "--estimator", "flow", "--quiet")
        self.expect(self.old_scenarios | self.published)
        check(self.states[-1] != before, "the variant of seed-1 does not change")
        self.lake.publish("--scenario", self.seeds[0])
        yield
        self.lake.run("rm", self.seeds[1])
        self.expect({self.seeds[0]})
        self.lake.publish("--prune")
        yield

    def expect(self, scenarios):
        """Appends the state in which the tables have these scenarios."""
        state = {}
        for table, sql in SUMMARIES.items():
            rows = self.lake.rows(sql)
            if self.old_scenarios <= scenarios:
                rows += self.old.rows(sql)
            state[table] = sorted(row for row in rows if row[0] in scenarios)
        self.states.append(state)


class Observer(threading.Thread):
    """Reads the tables again and again with one reader."""

    def __init__(self, reader, steps):
        super().__init__()
        self.reader = reader
        self.steps = steps
        self.at = dict.fromkeys(SUMMARIES, 0)  # latest state that was seen
        self.readings = 0
        self.failure = None
        self.ended = threading.Event()

    def run(self):
        try:
            while not self.ended.wait(0.1):  # fast readers leave slow ones some of the processor
                self.observe()
                self.readings += 1
        except Exception:  # of any reader
            self.failure = f"{self.reader.name}, reading {self.readings}: {traceback.format_exc()}"

    def observe(self):
        seen = {}
        for table, sql in SUMMARIES.items():  # scenarios first
            self.reader.open({table: None})
            seen[table] = plain(self.reader.ask(sql))
            states = [i for i, state in enumerate(self.steps.states) if state[table] == seen[table]]
            check(states, f"{table} has {seen[table]}: the state of no step")
            check(states[-1] >= self.at[table], f"{table} is at step {states}, and was at {self.at[table]}")
            self.at[table] = max(self.at[table], states[0])
        without = {row[0] for row in seen["scenarios"]} - {row[0] for row in seen["slowdowns"]}
        removed = {row[0] for row in self.steps.states[0]["scenarios"]} | {self.steps.seeds[1]}
        check(not without or self.at["slowdowns"] == 4 and without <= removed, f"{without} is visible without flows")


def wait_for(observers, step):
    """Waits until each reader has seen a state."""
    while True:
        failures = [o.failure for o in observers if o.failure]
        check(not failures, "\n".join(failures))
        if all(o.at["slowdowns"] == step for o in observers):
            return
        observers[0].ended.wait(0.1)


def read_snapshots(reader, steps):
    """Reads each snapshot. The commits of a table are its states, without those that are equal to the one before."""
    for table, sql in SUMMARIES.items():
        want = []
        for state in steps.states:
            if not want or want[-1] != state[table]:
                want.append(state[table])
        snapshots = steps.files.snapshots(table)
        check(len(snapshots) == len(want), f"{table} has {len(snapshots)} snapshots, want {len(want)}")
        for snapshot, rows in zip(snapshots, want):
            reader.open({table: snapshot})
            got = plain(reader.ask(sql))
            check(got == rows, f"{reader.name}: {table} has {got} in snapshot {snapshot}, want {rows}")
    first, _, third = steps.files.snapshots(GROWN)[:3]
    reader.open({GROWN: first})
    got = plain(reader.ask(OF_GROWN))
    check(got == steps.grown_before, f"{reader.name}: {GROWN} was {steps.grown_before}, and is {got} in its first snapshot")
    reader.open({GROWN: third})
    rows = {row[0]: row[1] for row in plain(reader.ask(OF_GROWN))}
    want = [[s, 0 if s in steps.old_scenarios else n] for s, n in rows.items()]
    got = plain(reader.ask(OF_COLUMN))
    check(got == want and any(n for _, n in want), f"{reader.name}: values of {COLUMN}: {got}, want {want}")


def observe_steps(steps, observers):
    """Publishes all steps while the observers read."""
    for observer in observers:
        observer.start()
    try:
        wait_for(observers, 0)
        for step, _ in enumerate(steps.rest(), start=1):
            wait_for(observers, step)
    finally:
        for observer in observers:
            observer.ended.set()
        for observer in observers:
            observer.join()


def main():
    steps = Steps(*sys.argv[1:])
    try:
        steps.first()
        observers = [Observer(reader(steps.files), steps) for reader in READERS]
        observe_steps(steps, observers)
        for observer in observers:
            read_snapshots(observer.reader, steps)
            print(f"{observer.reader.name:>10}: {observer.readings} readings during {len(steps.states) - 1} publications, "
                  f"each the state before or after one; {len(steps.states)} snapshots; a column that was added")
    except Failure as err:
        print(f"snapshots: {err}", file=sys.stderr)
        sys.exit(1)
    print(f"{len(observers)} passed, 0 failed")


if __name__ == "__main__":
    main()
