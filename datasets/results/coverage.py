"""Whole workloads by exact against windows of them: how often do the intervals of --within hold the whole's percentile?

Usage: coverage.py PARSIMON SCENARIO DURATION WITHIN SEEDS
Prints, for each group of flow sizes and percentile, the share of the seeds whose interval holds the value of the whole
workload, the mean half width, and the mean error.
"""

import json
import subprocess
import sys
import tempfile

PERCENTILES = ("p50", "p90", "p99", "p999")


def run(program, scenario, duration, seed, lake, *flags):
    command = [program, "run", scenario, "--duration", duration, "--seed", str(seed), "--lake", lake, "--format", "json"]
    answer = subprocess.run([*command, *flags], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
    rows = {row["size_bin"]: row for row in json.loads(answer)["percentiles"]}
    return rows


def main():
    program, scenario, duration, within, seeds = sys.argv[1:]
    cells = {}
    for seed in range(1, int(seeds) + 1):
        with tempfile.TemporaryDirectory() as lake:
            whole = run(program, scenario, duration, seed, lake, "--estimator", "exact")
            windows = run(program, scenario, duration, seed, lake, "--within", within, "--of", "p99")
        for size_bin, row in windows.items():
            for percentile in PERCENTILES:
                low, high, truth = row[percentile + "_lo"], row[percentile + "_hi"], whole[size_bin][percentile]
                if low is None:
                    continue
                cell = cells.setdefault((size_bin, percentile), [])
                held, width = (low <= truth, None) if high is None else (low <= truth <= high, (high - low) / 2 / truth)
                cell.append((held, width, row[percentile] / truth - 1))
        print("seed", seed, "done", file=sys.stderr)
    print("| flows | percentile | workloads | intervals that hold it | without an upper end | mean half width of the others "
          "| mean error | largest |")
    print("|---|---|---|---|---|---|---|---|")
    for (size_bin, percentile), cell in cells.items():
        n = len(cell)
        held, error = sum(h for h, _, _ in cell) / n, sum(e for _, _, e in cell) / n
        widths = [w for _, w, _ in cell if w is not None]
        width = f"{sum(widths) / len(widths):.1%}" if widths else ""
        largest = max((e for _, _, e in cell), key=abs)
        name = percentile.replace("p999", "p99.9")
        print(f"| {size_bin} | {name} | {n} | {held:.0%} | {n - len(widths)} | {width} | {error:+.1%} | {largest:+.1%} |")


main()
