#!/usr/bin/env python3
"""Compares what two versions of parsimon find: digests of the rows of their tables.

    python3 datasets/results/digests.py OLD NEW > datasets/results/digests.md

OLD and NEW are binaries. Both run the same commands, each in a lake of its own. The digest of a table is the sum of
the hashes of its rows over the columns that both versions have, without times of the clock and names of variants.
"""
import csv, io, pathlib, subprocess, sys, tempfile

SKIPPED = {"variant", "base_variant", "other_variant", "scenario", "base", "other", "spec", "seconds", "cached", "answer",
           "workload", "settings", "sweep", "file", "simulated_cases", "cached_cases"}
INPUT = ["nodes", "links", "flows", "hops", "link_loads"]
ANSWER = ["slowdowns", "hop_contributions", "link_stats", "intervals"]
CABLE = "pod0-fabric0:plane0-spine2"
SMALL = ["run", "small", "--duration", "30ms"]
INGEST = ["ingest", "{dir}/flows.csv", "--format", "csv", "--topology", "small-2to1", "--workload", "day"]
# What is compared: a name, the commands (those of OLD, where they differ), and the tables.
RUNS = [
    ("exact", [SMALL + ["--estimator", "exact"]], INPUT + ANSWER),
    ("independent", [SMALL + ["--estimator", "independent"]], INPUT + ["delay_buckets"] + ANSWER),
    ("flow", [SMALL + ["--estimator", "flow", "--passes", "2"]], ["slowdowns"]),
    ("what-if, exact", [SMALL + ["--estimator", "exact"], ["what-if", "small, duration 30ms", "--fail", CABLE, "--estimator", "exact"]],
     ANSWER + ["comparisons"]),
    ("what-if, independent", [SMALL + ["--estimator", "independent"],
                              ["what-if", "small, duration 30ms", "--fail", CABLE, "--estimator", "independent"]],
     ANSWER + ["comparisons"]),
    ("sweep of 8 cables, independent", [["run", "small", "--duration", "5ms", "--estimator", "independent"],
     ["sweep", "small, duration 5ms", "--fail", "each:fabric-spine", "--estimator", "independent"]], ["sweeps"]),
    ("ingest", [INGEST], ["workload_nodes", "workload_links", "workload_flows", "workload_rejects"]),
    ("ingested workload, independent", [INGEST, ["run", "--workload", "day", "--estimator", "independent", "{window}"]],
     INPUT + ANSWER),
    ("ingested workload, exact", [INGEST, ["run", "--workload", "day", "--estimator", "exact", "{window}"]],
     INPUT + ANSWER),
]
# OLD has no --window: every sender has 18 KB in flight.
WINDOW = {"old": [], "new": ["--window", "18KB"]}


class Side:
    """One version and its lakes."""

    def __init__(self, name, binary, directory):
        self.name, self.binary, self.dir = name, binary, pathlib.Path(directory)

    def run(self, args, lake=None):
        args = sum((WINDOW[self.name] if a == "{window}" else [a.format(dir=self.dir.parent)] for a in args), [])
        if lake:
            args += ["--lake", str(lake)]
        done = subprocess.run([self.binary] + args, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{self.binary} {' '.join(args)}: {done.stderr[-2000:]}")
        return done.stdout

    def ask(self, lake, sql):
        return list(csv.reader(io.StringIO(self.run(["query", "--format", "csv", "--sql", sql], lake))))

    def columns(self, lake, table):
        return [c for c in self.ask(lake, f"SELECT * FROM {table} LIMIT 0")[0] if c not in SKIPPED]

    def digest(self, lake, table, columns):
        rows = self.ask(lake, f"SELECT count(*), sum(hash({', '.join(columns)})) FROM {table}")
        return rows[1]


def main(old_binary, new_binary):
    tmp = pathlib.Path(tempfile.mkdtemp(prefix="digests-"))
    sides = [Side("old", old_binary, tmp / "old"), Side("new", new_binary, tmp / "new")]
    for s in sides:
        s.dir.mkdir()
    write_flows(sides[0], tmp)
    print("| what | table | rows | digest of OLD | digest of NEW | |\n|---|---|---|---|---|---|")
    for n, (what, commands, tables) in enumerate(RUNS):
        lakes = [s.dir / str(n) for s in sides]
        for s, lake in zip(sides, lakes):
            for c in commands:
                s.run(c, lake)
        for table in tables:
            both = [s.columns(lake, table) for s, lake in zip(sides, lakes)]
            columns = [c for c in both[0] if c in both[1]]
            (rows, a), (more, b) = [s.digest(lake, table, columns) for s, lake in zip(sides, lakes)]
            same = "equal" if (rows, a) == (more, b) else "**differs**"
            print(f"| {what} | {table}, {len(columns)} columns | {rows} | {a} | {b} | {same} |", flush=True)


def write_flows(side, tmp):
    """Writes the flows of a run as a flow file, with three rows that cannot be simulated."""
    lake = side.dir / "flows"
    side.run(["run", "small", "--duration", "10ms", "--estimator", "independent"], lake)
    rows = side.ask(lake, "SELECT flow_id, src, dst, size_bytes, start_ns, service FROM flows ORDER BY flow_id")
    rows += [["9000001", "3", "3", "10", "5", "loop"], ["9000002", "3", "99999", "10", "5", "far"],
             ["9000003", "3", "4", "-1", "5", "less"]]
    with open(tmp / "flows.csv", "w", newline="") as f:
        csv.writer(f).writerows(rows)


main(*sys.argv[1:3])
