"""Whole workloads by exact against windows of them: how often do the intervals of --within hold the whole's percentile?

Usage: coverage.py PARSIMON RESULTS.jsonl FIRST LAST WITHIN   measures the workloads that RESULTS.jsonl does not hold yet
       coverage.py table RESULTS.jsonl ...                    prints the tables

Workloads are drawn at random, each by its number: small networks of several kinds, sizes of flows, loads and transports.
An error of a percentile has two parts: that of the windows that were drawn (their flows in the whole workload against all
flows), and that of simulating windows (their flows in the windows against the same flows in the whole workload).
"""

import bisect
import collections
import csv
import io
import json
import pathlib
import random
import subprocess
import sys
import tempfile

PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
BINS = ["<10 KB", "10-100 KB", "100 KB-1 MB", ">1 MB"]
STARTS = [10_000, 100_000, 1_000_000]
MIX = "200 20\n1000 40\n5000 60\n20000 75\n100000 90\n1000000 99\n3000000 100\n"  # bytes and the percent of flows up to them
FLOWS = """SELECT s.size_bytes, s.weight, s.slowdown AS windows, w.slowdown AS whole FROM sampled_slowdowns s
           JOIN slowdowns_all w USING (flow_id) WHERE w.variant = 'exact'"""


def draw(number):
    """Returns the scenario of a number. Its duration is 300 of the warm-ups that it needs; MIX is in file mix.txt."""
    r = random.Random(number)
    slow, longer = r.random() < 0.5, r.random() < 0.25
    delay = "4us" if longer else "1us"
    speeds = {"host_bandwidth": "10Gbps" if slow else "25Gbps", "fabric_bandwidth": "40Gbps" if slow else "100Gbps",
              "host_delay": delay, "fabric_delay": delay}
    kind = r.choice(["clos", "clos", "torus", "dragonfly", "star"])
    if kind == "clos":
        topology = {"clos": {"pods": 2, "racks_per_pod": 2, "hosts_per_rack": r.choice([2, 3]), "planes": r.choice([1, 2]),
                             "spines_per_plane": r.choice([1, 2]), **speeds}}
    elif kind == "torus":
        topology = {"fabric": {"kind": kind, "x": 3, "y": 3, "z": 1, "hosts_per_switch": 1, **speeds}}
    elif kind == "dragonfly":
        topology = {"fabric": {"kind": kind, "groups": 3, "switches_per_group": 2, "hosts_per_switch": 2, "global_ports": 1,
                               **speeds}}
    else:
        hosts = [f"h{i}" for i in range(r.choice([6, 8, 12]))]
        topology = {"graph": {"hosts": hosts, "switches": ["s"], "bandwidth": speeds["host_bandwidth"], "delay": delay,
                              "cables": [f"{h}:s" for h in hosts]}}
    sizes = r.choice(["webserver", "mix.txt", "mix.txt", "30KB", "100KB"])
    service = {"name": "all", "matrix": "uniform", "sizes": sizes, "sigma": r.choice([1, 1.5, 2])}
    transport = r.choice(["dctcp"] * 4 + ["dcqcn", "timely", "hpcc", "swift", "dctcp-window"])
    return {
        "name": "drawn",
        "seed": number,
        "topology": topology,
        "workload": {"max_load": f"{r.choice([30, 40, 50, 60])}%", "services": [service],
                     "duration": "600ms" if longer or slow and sizes == "webserver" else "300ms"},
        "transport": {"kind": transport, "window": "auto" if longer else "18KB" if slow else "45KB"},
    }


def parsimon(program, *command):
    return subprocess.run([program, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True, text=True).stdout


def percentiles(values, weights):
    order = sorted(range(len(values)), key=values.__getitem__)
    total, sums = 0.0, []
    for i in order:
        total += weights[i]
        sums.append(total)
    return {p: values[order[min(len(order) - 1, bisect.bisect_left(sums, q * total))]] for p, q in PERCENTILES.items()}


def measure(program, number, within, lake):
    scenario = draw(number)
    file = pathlib.Path(lake) / "scenario.yaml"
    file.write_text(json.dumps(scenario))
    (pathlib.Path(lake) / "mix.txt").write_text(MIX)
    run = ["run", str(file), "--lake", lake + "/lake", "--format", "json", "--quiet", "--workers", "1"]
    rows = {}
    whole = json.loads(parsimon(program, *run, "--estimator", "exact"))
    windows = json.loads(parsimon(program, *run, "--within", within, "--of", "p99"))
    if windows["stopped"] == "precise":
        table = list(csv.DictReader(io.StringIO(parsimon(program, "query", "--lake", lake + "/lake", "--sql", FLOWS, "--format", "csv"))))
        truth = {row["size_bin"]: row for row in whole["percentiles"]}
        for row in windows["percentiles"]:
            size_bin = row["size_bin"]
            some = [t for t in table if size_bin == "all" or BINS[bisect.bisect_right(STARTS, int(t["size_bytes"]))] == size_bin]
            if not some:
                continue
            weights = [float(t["weight"]) for t in some]
            inside = percentiles([float(t["windows"]) for t in some], weights)
            same = percentiles([float(t["whole"]) for t in some], weights)
            rows[size_bin] = {p: {"lo": row[p + "_lo"], "hi": row[p + "_hi"], "is": row[p], "whole": truth[size_bin][p],
                                  "windows_error": inside[p] / same[p] - 1} for p in PERCENTILES}
    return {"number": number, "scenario": scenario, "within": within, "stopped": windows["stopped"],
            "windows": windows["windows"], "simulated": windows["simulated_share"], "rows": rows}


def table(results):
    precise = [r for r in results if r["stopped"] == "precise"]
    print(f"{len(results)} workloads, {len(precise)} of them by windows: {sum(r['windows'] for r in precise) / len(precise):.0f} "
          f"windows and {sum(r['simulated'] for r in precise) / len(precise):.0%} simulated on average\n")
    print("| flows | percentile | workloads | intervals that hold it | without an upper end | mean half width of the others "
          "| mean error | its standard error | of windows | its standard error | largest error |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for size_bin in [*BINS, "all"]:
        for p in PERCENTILES:
            line([r["rows"][size_bin][p] for r in precise if size_bin in r["rows"]], size_bin, p.replace("p999", "p99.9"))
    groups = collections.defaultdict(list)
    for r in precise:
        workload, transport = r["scenario"]["workload"], r["scenario"]["transport"]
        for name in (transport["kind"], f"window {transport['window']}", workload["services"][0]["sizes"], f"load {workload['max_load']}"):
            groups[name].append(r["rows"]["all"]["p99"])
    for name, cells in groups.items():
        line(cells, name, "p99")


def line(cells, *names):
    cells = [c for c in cells if c["lo"] is not None]
    if not cells:
        return
    closed = [c for c in cells if c["hi"] is not None]
    held = sum(c["lo"] <= c["whole"] and (c["hi"] is None or c["whole"] <= c["hi"]) for c in cells)
    width = f"{sum((c['hi'] - c['lo']) / 2 / c['whole'] for c in closed) / len(closed):.1%}" if closed else ""
    errors, windows = [c["is"] / c["whole"] - 1 for c in cells], [c["windows_error"] for c in cells]
    parts = [*names, len(cells), f"{held / len(cells):.1%}", len(cells) - len(closed), width, *mean(errors), *mean(windows),
             f"{max(errors, key=abs):+.1%}"]
    print("| " + " | ".join(map(str, parts)) + " |")


def mean(values):
    n = len(values)
    middle = sum(values) / n
    return f"{middle:+.2%}", f"{(sum((v - middle) ** 2 for v in values) / max(1, n - 1) / n) ** 0.5:.2%}"


def main():
    if sys.argv[1] == "table":
        table([json.loads(text) for name in sys.argv[2:] for text in open(name)])
        return
    program, file, first, last, within = sys.argv[1:]
    results = pathlib.Path(file)
    known = {json.loads(text)["number"] for text in results.read_text().splitlines()} if results.exists() else set()
    for number in range(int(first), int(last) + 1):
        if number not in known:
            with tempfile.TemporaryDirectory() as lake:
                result = measure(program, number, within, lake)
            with results.open("a") as out:
                print(json.dumps(result), file=out)


main()
