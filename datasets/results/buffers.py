#!/usr/bin/env python3
"""buffers.py BINARY DIR GROUP...: the tables of buffers.md for sweep, held_out, ten. Writes each case below DIR, runs it by
estimators exact and flow, and without limited buffers by exact, on one worker, and prints a row each. Results in DIR are kept."""
import hashlib, json, math, os, random, re, subprocess, sys, zlib

BINARY, DIR = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
SIZES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sizes")
cases = []


def table(name):
    rows = [tuple(map(float, line.split()[:2])) for line in open(os.path.join(SIZES, name)) if line[:1].isdigit()]

    def draw(r):
        at, bytes_, percent = 100 * r.random(), 0.0, 0.0
        for to_bytes, to_percent in rows:
            if to_percent > at:
                return bytes_ + (to_bytes - bytes_) * (at - percent) / (to_percent - percent)
            bytes_, percent = to_bytes, to_percent
        return bytes_
    return draw


hadoop, web, cache = table("hadoop.txt"), table("webserver.txt"), table("cachefollower.txt")
def small(r): return math.exp(9.2 + 1.6 * r.gauss(0, 1))
def rpc(r): return r.choice([500, 2000, 8000, 20000])
def bimodal(r): return 1e6 if r.random() < 0.03 else r.uniform(100, 3000)


def flows(seed, hosts, gbps, load, sizes, ms, bursts):
    """Poisson between random hosts, and bursts of (ns, senders, KB, destination)."""
    r = random.Random(seed)
    mean = sum(max(100, min(1e6, sizes(r))) for _ in range(20000)) / 20000
    out, gap = [], mean * 8 / gbps / load / hosts
    at = r.expovariate(1) * gap
    while at < ms * 1e6:
        src, dst = r.randrange(hosts), r.randrange(hosts - 1)
        dst += dst >= src
        out.append((src, dst, int(max(100, min(1e6, sizes(r)))), int(at)))
        at += r.expovariate(1) * gap
    for ns, senders, kb, dst in bursts:
        for src in r.sample([h for h in range(hosts) if h != dst], senders):
            out.append((src, dst, int(kb * 1000), int(ns + r.randrange(5000))))
    return out


def bursts(senders, times, kb, dsts, gap=1e6): return [(gap * (1 + i), senders, kb, dsts[i % len(dsts)]) for i in range(times)]


def graph(hosts, switches, gbps, cables, delay="1us"):
    return f'graph: {{hosts: [{", ".join(hosts)}], switches: [{", ".join(switches)}], bandwidth: {gbps}Gbps, delay: {delay}, ' \
        f'cables: [{", ".join(cables)}]}}'


def racks(n, per, gbps, up, core=True):
    hosts = [f"h{i}x{j}" for i in range(n) for j in range(per)]
    cables = [f'"h{i}x{j}:t{i}"' for i in range(n) for j in range(per)]
    cables += [f'{{ends: "t{i}:core", bandwidth: {up}Gbps}}' for i in range(n)] if core else [f'{{ends: "t0:t1", bandwidth: {up}Gbps}}']
    return graph(hosts, [f"t{i}" for i in range(n)] + (["core"] if core else []), gbps, cables)


def chain(n, per, gbps, up, delay="1us"):
    hosts = [f"h{i}x{j}" for i in range(n) for j in range(per)]
    cables = [f'"h{i}x{j}:s{i}"' for i in range(n) for j in range(per)]
    cables += [f'{{ends: "s{i}:s{i + 1}", bandwidth: {up}Gbps}}' for i in range(n - 1)]
    return graph(hosts, [f"s{i}" for i in range(n)], gbps, cables, delay)


def clos(pods, per_pod, hosts, planes, spines, gbps, fabric):
    return f"clos: {{pods: {pods}, racks_per_pod: {per_pod}, hosts_per_rack: {hosts}, planes: {planes}, spines_per_plane: {spines}, " \
        f"host_bandwidth: {gbps}Gbps, fabric_bandwidth: {fabric}Gbps, host_delay: 1us, fabric_delay: 1us}}"


def add(name, topology, hosts, gbps, load, sizes, burst, switches, kind="dctcp", ms=4, extra=(), seed=None):
    seed = zlib.crc32(name.encode()) if seed is None else seed
    cases.append((name, topology, flows(seed, hosts, gbps, load, sizes, ms, burst) + list(extra), switches, kind))


def sweep():
    topology = racks(4, 16, 10, 40)
    for load in (5, 10, 15):
        for n in (8, 24, 56):
            for kb in (100, 150, 200, 300, 400, 600, 800, 1600):
                for pfc in ("", ", pfc: true")[:1 + (kb >= 400)]:
                    add(f'{load} N{n} {kb}KB{" PFC" if pfc else ""}', topology, 64, 10, load / 100, small,
                        [(2e6, n, 64, 0), (7e6, n, 64, 0)], f"buffer: {kb}KB{pfc}", ms=12, seed=load * 100 + n)


def held_out():
    fast, eight = racks(2, 24, 100, 400, core=False), racks(8, 8, 25, 100)
    large, small_clos = clos(4, 4, 8, 2, 2, 25, 100), clos(2, 4, 8, 2, 2, 10, 40)
    often = bursts(10, 8, 64, [0, 9, 20, 33], 4e5)
    add("100G two racks RPC 30 to 1", fast, 48, 100, .3, rpc, bursts(30, 2, 64, [0]), "buffer: 2MB", ms=1)
    add("100G two racks RPC 30 to 1 PFC", fast, 48, 100, .3, rpc, bursts(30, 2, 100, [0], 4e5), "buffer: 6MB, pfc: true", ms=1)
    add("100G two racks RPC 30 to 1 deep", fast, 48, 100, .3, rpc, bursts(30, 2, 100, [0], 4e5), "buffer: 12MB", ms=1)
    add("eight racks web servers", eight, 64, 25, .3, web, [], "buffer: 1MB")
    add("eight racks web servers shallow", eight, 64, 25, .3, web, [], "buffer: 300KB")
    add("eight racks bimodal 10 to 1 often", eight, 64, 25, .2, bimodal, often, "buffer: 500KB")
    add("eight racks bimodal 10 to 1 often PFC", eight, 64, 25, .2, bimodal, often, "buffer: 1MB, pfc: true")
    add("Clos Hadoop HPCC 50 to 1", large, 128, 25, .2, hadoop, bursts(50, 3, 64, [0]), "buffer: 800KB", "hpcc")
    add("Clos Hadoop DCQCN PFC 50 to 1", large, 128, 25, .2, hadoop, bursts(50, 3, 64, [0]), "buffer: 4MB, pfc: true", "dcqcn")
    add("Clos RPC TIMELY 20 to 1", small_clos, 64, 10, .3, rpc, bursts(20, 4, 64, [0, 7]), "buffer: 400KB", "timely")
    add("Clos small alpha 8", large, 128, 25, .5, small, [], "buffer: 400KB, alpha: 8")
    add("Clos small alpha 0.25 16 to 1", large, 128, 25, .3, small, bursts(16, 2, 20, [0]), "buffer: 1MB, alpha: 0.25")
    add("100G two racks RPC 40 to 1 PFC", fast, 48, 100, .3, rpc, bursts(40, 3, 200, [0], 3e5), "buffer: 3MB, pfc: true", ms=1)
    add("eight racks bimodal 40 to 1 PFC", eight, 64, 25, .2, bimodal, bursts(40, 3, 64, [0]), "buffer: 500KB, pfc: true")
    add("Clos Hadoop DCQCN PFC 100 to 1", large, 128, 25, .2, hadoop, bursts(100, 3, 200, [0]), "buffer: 1MB, pfc: true", "dcqcn")


def ten():
    star = graph([f"h{i}" for i in range(24)], ["s"], 25, [f'"h{i}:s"' for i in range(24)])
    line, three, far = chain(3, 8, 10, 40), racks(3, 8, 25, 100), chain(2, 12, 10, 40, "20us")
    r = random.Random(1)
    shuffle = [(s, d, 16000, int(1e6 + r.randrange(20000))) for s in range(24) for d in range(24) if s != d]
    add("star cache 16 to 1", star, 24, 25, .3, cache, bursts(16, 3, 64, [0]), "buffer: 500KB")
    add("star cache 16 to 1 PFC", star, 24, 25, .3, cache, bursts(16, 3, 64, [0]), "buffer: 1MB, pfc: true")
    add("star cache 20 to 1 deep", star, 24, 25, .3, cache, bursts(20, 3, 64, [0]), "buffer: 8MB")
    add("chain of three 12 to 1", line, 24, 10, .15, small, bursts(12, 3, 48, [0]), "buffer: 300KB")
    add("chain of three 12 to 1 PFC", line, 24, 10, .15, small, bursts(12, 3, 48, [0]), "buffer: 400KB, pfc: true")
    add("oversubscribed Hadoop", clos(2, 4, 8, 1, 1, 25, 50), 64, 25, .2, hadoop, [], "buffer: 400KB")
    add("shuffle of 24", three, 24, 25, .1, small, [], "buffer: 1MB", extra=shuffle)
    add("shuffle of 24 PFC", three, 24, 25, .1, small, [], "buffer: 2MB, pfc: true", extra=shuffle)
    add("two incasts to one rack alpha 2", three, 24, 25, .15, web, bursts(12, 2, 64, [0]) + bursts(12, 2, 64, [1]),
        "buffer: 600KB, alpha: 2")
    add("long cables 10 to 1 of 20 KB", far, 24, 10, .05, small, bursts(10, 3, 20, [0]), "buffer: 200KB", ms=8)


def run(kept, file, estimator):
    if not os.path.exists(kept):
        lake = os.path.join(DIR, "lake")
        out = subprocess.run([BINARY, "run", file, "--lake", lake, "--quiet", "--format", "json", "--estimator", estimator,
                              "--workers", "1"], capture_output=True, text=True, check=True).stdout
        subprocess.run(["rm", "-rf", lake], check=True)
        open(kept, "w").write(out)
    return json.load(open(kept))


def percentiles(answer): return [answer["percentiles"][-1][p] for p in ("p50", "p90", "p99", "p999")]
def off(a, b): return [100 * (x / y - 1) for x, y in zip(a, b)]
def text(v): return " / ".join("%+.1f%%" % x for x in v)


for group in sys.argv[3:]:
    {"sweep": sweep, "held_out": held_out, "ten": ten}[group]()
    named = {">10": [0, 0], "<5": [0, 0], "5-10": [0, 0]}
    for name, topology, rows, switches, kind in cases:
        d = os.path.join(DIR, group, name.replace(" ", "_"))
        os.makedirs(d, exist_ok=True)
        open(d + "/flows.csv", "w").write("src,dst,size_bytes,start_ns\n" + "".join("%d,%d,%d,%d\n" % f for f in rows))
        free = f"topology: {{{topology}}}\nworkload: {{flows: flows.csv}}\ntransport: {{kind: {kind}}}\n"
        open(d + "/free.yaml", "w").write(free)
        open(d + "/limited.yaml", "w").write(free + f"switches: {{{switches}}}\n")
        key = hashlib.md5((free + repr(rows)).encode()).hexdigest()
        own = run(os.path.join(DIR, key + ".json"), d + "/free.yaml", "exact")
        exact, flow = run(d + "/exact.json", d + "/limited.yaml", "exact"), run(d + "/flow.json", d + "/limited.yaml", "flow")
        error = off(percentiles(flow), percentiles(exact))
        warnings = [w for w in flow["warnings"] if w.startswith("buffers")]
        rise = re.search(r"(p[\d.]+) of all by (\d+)%", warnings[0]) if warnings else None
        most, met = max(map(abs, error)), exact["drops"] > 0 or exact["paused_ns"] > 0
        if most <= 10 or met:
            count = named[">10" if most > 10 else "<5" if most < 5 else "5-10"]
            count[0], count[1] = count[0] + bool(warnings), count[1] + 1
        if met or warnings or group != "sweep":
            print(f'| {name} | {switches} | {text(error)} | {text(off(percentiles(exact), percentiles(own)))} | {exact["drops"]} | '
                  f'{exact["paused_ns"] / 1e6:.1f} | {f"{rise[1]} + {rise[2]}%" if rise else ""} |', flush=True)
    print(group, {k: f"{a} of {b} named" for k, (a, b) in named.items()})
    cases.clear()
