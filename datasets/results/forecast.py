"""Fits the constants of predicted processor times to forecast.csv, and prints the tables of forecast-fit.md.

The sum of squares of the relative errors is least, with constants that are not negative. Halves are alternate rows.
"""
import csv
import math
import os

START_S = 0.2  # a run of one packet
TWO_WORKERS = 2 ** 0.4  # processor time of two workers of a simulation over that of one
CACHED_FLOWS = 640
HOST_FLOWS = 0.125


def terms(r):
    """Names and quantities of the terms of a run, without its start."""
    hops, packet_hops = float(r["hops"]), float(r["packet_hops"])
    active, hosts = float(r["active"]), float(r["hosts"])
    if r["estimator"] != "exact":
        crowding = math.log2(1 + active / max(1, hosts))
        return {"packetHopNS": packet_hops, "hopNS": hops, "crowdedNS": hops * crowding}
    times = TWO_WORKERS if int(r["links"]) >= 32 else 1
    state = (active + HOST_FLOWS * hosts) / CACHED_FLOWS
    return {
        "packetHopNS": times * packet_hops,
        "windowNS": times * float(r["windows"]),
        "hopNS": hops,
        "waitingNS": times * float(r["waiting"]),
        "doublingNS": times * packet_hops * math.log2(max(1, state)),
        "limitedNS": times * packet_hops * int(r["limited"]),
        "ackClockedNS": times * packet_hops * int(r["ack_clocked"]),
        "movingNS": times * packet_hops * int(r["moving"]),
    }


def solve(a, b):
    """Solves a system of linear equations."""
    m = [row + [x] for row, x in zip(a, b)]
    for i in range(len(m)):
        top = max(range(i, len(m)), key=lambda k: abs(m[k][i]))
        m[i], m[top] = m[top], m[i]
        for k in range(len(m)):
            if k != i:
                f = m[k][i] / m[i][i]
                m[k] = [x - f * y for x, y in zip(m[k], m[i])]
    return [row[-1] / row[i] for i, row in enumerate(m)]


def fit(rows, without=""):
    """Returns the constants, in ns. Terms that no row has are omitted."""
    names = [n for n in terms(rows[0]) if n != without and any(terms(r)[n] for r in rows)]
    while True:
        x = [[terms(r)[n] / 1e9 / float(r["processor_s"]) for n in names] for r in rows]
        y = [1 - START_S / float(r["processor_s"]) for r in rows]
        a = [[sum(p[i] * p[j] for p in x) for j in range(len(names))] for i in range(len(names))]
        c = solve(a, [sum(p[i] * q for p, q in zip(x, y)) for i in range(len(names))])
        if min(c) >= 0:
            return dict(zip(names, c))
        names.pop(c.index(min(c)))


def error(r, constants):
    """The relative error of a prediction."""
    ns = sum(constants.get(n, 0) * x for n, x in terms(r).items())
    return (START_S + ns / 1e9) / float(r["processor_s"]) - 1


def main():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "forecast.csv")
    with open(path, encoding="utf-8") as f:
        all_rows = list(csv.DictReader(f))
    exact = [r for r in all_rows if r["estimator"] == "exact"]
    for estimator in ("exact", "flow", "independent"):
        rows = [r for r in all_rows if r["estimator"] == estimator]
        parts = [rows, rows[0::2], rows[1::2]]
        fits = [fit(p) for p in parts]
        print(f"\n| `{estimator}`, {len(rows)} runs | all | first half | second half |\n|---|---|---|---|")
        for name in terms(rows[0]):
            print(f"| {name} | " + " | ".join(f"{c[name]:.3g}" if name in c else "–" for c in fits) + " |")
        others = [rows, rows[1::2], rows[0::2]]
        errors = [[error(r, c) for r in p] for p, c in zip(others, fits)]
        print("| mean size of the error, of the half not fitted | "
              + " | ".join(f"{sum(map(abs, e)) / len(e):.0%}" for e in errors) + " |")
        print("| largest | " + " | ".join(f"{max(e, key=abs):+.0%}" for e in errors) + " |")
        print("| within 50% | " + " | ".join(f"{sum(abs(x) <= 0.5 for x in e)} of {len(e)}" for e in errors) + " |")
    print("\n| without | mean size of the error | largest |\n|---|---|---|")
    for name in terms(exact[0]):
        errors = [error(r, fit(exact, name)) for r in exact]
        print(f"| {name} | {sum(map(abs, errors)) / len(errors):.0%} | {max(errors, key=abs):+.0%} |")
    for estimator in ("exact", "flow", "independent"):
        rows = [r for r in all_rows if r["estimator"] == estimator]
        halves = [fit(rows[1::2]), fit(rows[0::2])]
        print(f"\n| `{estimator}` | M packet-hops | processor s | error | fitted on the other half |\n|---|---|---|---|---|")
        for i, r in enumerate(rows):
            print(f"| {r['scenario']} | {float(r['packet_hops']) / 1e6:.1f} | {float(r['processor_s']):.2f} | "
                  f"{error(r, fit(rows)):+.0%} | {error(r, halves[i % 2]):+.0%} |")


main()
