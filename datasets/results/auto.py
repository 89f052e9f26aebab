"""What a run chooses by default, how far off it is and what it costs, beside an older version of the program.

Usage: auto.py NEW OLD SHARED RESULTS.jsonl [SCENARIO ...]   measures what RESULTS.jsonl does not hold yet
       auto.py table RESULTS.jsonl                           prints the table

A scenario is FOLDER/NAME of datasets/scenarios, a number or a name of the shared folders scenarios and hard, or
NAME:TRANSPORT. Both programs get the same definition of it, one worker and 10 minutes of processor time. The truth is
ns-3 or a simulation of the whole network beside the flows; else --estimator exact of NEW. Where NEW takes more than
10% longer in a first round, and less than 20 s, both run twice more, and the least times count.
"""

import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

LIMIT_SECONDS = 600
PERCENTILES = ("p50", "p90", "p99", "p999")
KINDS = ("mini-star mini-mix mini-slow-40-2 a2a-64k-4x chain-60 fasthosts-60 ft8-ws-60 incast-64k-30 onefast-60 sigma3-60 "
         "slowplane-60 wan-100us")
HARD = "mini-star-32k mini-slow-40-4 chain-storage recdouble ringsteps win200uni win500bi zipf"
NETWORKS = "mini-mix mini-slow-40-2 fasthosts-60 chain-60 a2a-64k-4x slowplane-60 incast-64k-30"
PAPER = "7 65 95 155 169 189 1002 1003 47 115 121 145 1001 1004"


def scenarios():
    shipped = pathlib.Path("datasets/scenarios")
    for folder in ("accuracy", "parking-lot", "held-out"):
        yield from sorted(f"{folder}/{file.stem}" for file in (shipped / folder).glob("*.yaml"))
    yield from KINDS.split() + PAPER.split() + HARD.split()
    for name in NETWORKS.split():
        yield from (f"{name}:{transport}" for transport in ("timely", "dcqcn", "hpcc", "swift"))


def definition(name, shared):
    """Returns the flags of a scenario and the file of its truth, None for --estimator exact."""
    if "/" in name:
        return [f"datasets/scenarios/{name}.yaml"], None
    name, _, transport = name.partition(":")
    reference = pathlib.Path(shared) / "reference"
    if name.isdigit():
        folder = reference / "scenarios" / name
        topology = reference / "topologies" / (json.loads((folder / "scenario.json").read_text())["topology"] + ".json")
    else:
        folder = reference / "hard" / name
        topology = next(path for path in (folder / "topology.json", folder / "net") if path.exists())
    if (folder / "scenario.yaml").exists():
        flags = [str(folder / "scenario.yaml")]
    else:
        flags = ["--topology", str(topology), "--flows", str(folder / "flows.parquet")]
    truth = next((file for file in (folder / "ns3.parquet", folder / "exact.parquet") if file.exists()), None)
    return (flags + ["--transport", transport], None) if transport else (flags, truth)


def execute(program, *command):
    """Runs a program; returns its answer and processor seconds, or None and the limit."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_SECONDS, LIMIT_SECONDS))
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as log:
        process = subprocess.Popen([program, *command, "--workers", "1", "--format", "json", "--quiet"], stdout=out, stderr=log,
                                   preexec_fn=limit, env=os.environ | {"GOMAXPROCS": "1"})
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = used.ru_utime + used.ru_stime
        if process.returncode < 0 and seconds > LIMIT_SECONDS - 5:
            return None, seconds
        out.seek(0), log.seek(0)
        if process.returncode != 0:
            raise RuntimeError(f"{program} {command}: {log.read().decode()}")
        return json.loads(out.read()), seconds


def row_of_all(answer):
    return next(row for row in answer["percentiles"] if row["size_bin"] == "all" and not row.get("service"))


def measure(name, programs, shared):
    flags, truth = definition(name, shared)
    result = {"scenario": name}
    least = {}
    for round in range(3):
        if round > 0 and (least["new"] < 1.1 * least["old"] or least["new"] > 20):
            break
        for side, program in programs.items():
            with tempfile.TemporaryDirectory() as lake:
                window = ["--window", "18KB"] if side == "new" and "--flows" in flags else []  # the old one's default
                answer, seconds = execute(program, "run", "--lake", lake, *flags, *window)
                least[side] = min(seconds, least.get(side, seconds))
                if round == 0 and answer:
                    estimate = {p: row_of_all(answer)[p] for p in PERCENTILES}
                    kinds = sorted({warning.split(":")[0] for warning in answer.get("warnings") or []})
                    result[side] = {"id": answer["scenario_id"], "variant": answer["variant"], "warnings": kinds, "estimate": estimate}
                elif round == 0:
                    result[side] = {"variant": "cut"}
                if round == 0 and side == "new":
                    result["truth"] = truth.name if truth else "exact"
                    result["true"] = truths(program, lake, truth, answer)
            result[side]["seconds"] = least[side]
    return result


def truths(program, lake, truth, answer):
    if truth is None and answer["variant"] == "exact":
        return {p: row_of_all(answer)[p] for p in PERCENTILES}
    rows, _ = execute(program, "validate", "--lake", lake, "--truth", str(truth or "exact"))
    rows = [row for row in rows["percentiles"] if row["size_bin"] == "all"]
    return dict(zip(PERCENTILES, (row["truth"] for row in sorted(rows, key=lambda row: row["quantile"]))))


def errors(side, true):
    return [side["estimate"][p] / true[p] - 1 for p in PERCENTILES] if "estimate" in side else None


def table(results):
    shown = lambda e: "–" if e is None else " / ".join(f"{x + 0:+.1%}".replace("-0.0%", "0.0%").replace("+0.0%", "0.0%") for x in e)
    print("| scenario | truth | before | errors | s | now | errors | warnings | s | now / before |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for result in results:
        old, new = result["old"], result["new"]
        ratio = new["seconds"] / old["seconds"]
        print(f"| {result['scenario']} | {result['truth'].removesuffix('.parquet')} | {old['variant']} | {shown(errors(old, result['true']))} |"
              f" {'over ' if old['variant'] == 'cut' else ''}{old['seconds']:.1f} | {new['variant']} |"
              f" {shown(errors(new, result['true']))} | {', '.join(new.get('warnings', []))} | {new['seconds']:.1f} |"
              f" {'below ' if old['variant'] == 'cut' else ''}{ratio:.2f} |")


def main():
    if sys.argv[1] == "table":
        with open(sys.argv[2]) as file:
            table([json.loads(line) for line in file])
        return
    new, old, shared, path, *names = sys.argv[1:]
    done = set()
    if os.path.exists(path):
        with open(path) as file:
            done = {json.loads(line)["scenario"] for line in file}
    for name in names or scenarios():
        if name in done:
            continue
        result = measure(name, {"new": new, "old": old}, shared)
        with open(path, "a") as file:
            file.write(json.dumps(result) + "\n")
        print(name, result["old"]["variant"], result["old"]["seconds"], result["new"]["variant"], result["new"]["seconds"], file=sys.stderr)


main()
