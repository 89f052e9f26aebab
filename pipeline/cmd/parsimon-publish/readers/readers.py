#!/usr/bin/env python3
"""Asks readers of Iceberg tables the same questions as "parsimon query", and compares the answers.

    readers.py PARSIMON LAKE PLACE...

PARSIMON is the program. Each PLACE is a directory, s3://BUCKET/PREFIX or rest:URL of a catalog to which LAKE was published.
Each answer must be equal to the bit. It prints a table of readers and questions for each place, and exits with 1 if an
answer differs.
"""
import json
import subprocess
import sys

from engines import READERS, plain, published

TABLES = ["scenarios", "nodes", "links", "slowdowns", "link_stats", "intervals", "warnings", "hop_contributions"]

# SQL that all readers understand. Floating-point values are not added, since the order of additions differs.
QUESTIONS = {
    "scenarios": "SELECT scenario, name, seed, flows, max_load FROM scenarios ORDER BY scenario",
    "flows of a scenario": """
        SELECT scenario, variant, COUNT(*) AS flows, SUM(size_bytes) AS bytes FROM slowdowns
        GROUP BY scenario, variant ORDER BY scenario""",
    "slowdown by service": """
        SELECT scenario, service, COUNT(*) AS flows, MAX(slowdown) AS worst, MIN(slowdown) AS best FROM slowdowns
        GROUP BY scenario, service ORDER BY scenario, service""",
    "slowest flows": """
        SELECT scenario, flow_id, src, dst, slowdown FROM slowdowns
        ORDER BY slowdown DESC, scenario, flow_id LIMIT 10""",
    "one scenario": """
        SELECT COUNT(*) AS flows, MAX(fct_ns) AS fct_ns FROM slowdowns
        WHERE scenario = (SELECT MIN(scenario) FROM scenarios)""",
    "rows of a range": """
        SELECT scenario, flow_id, ideal_ns, fct_ns, hops FROM slowdowns
        WHERE flow_row < 5 ORDER BY scenario, flow_row""",
    "load by tier": """
        SELECT scenario, tier, COUNT(*) AS links, MAX(load) AS load FROM link_stats
        GROUP BY scenario, tier ORDER BY scenario, tier""",
    "hottest links": """
        SELECT s.scenario, s.link_id, n.name, l.failed, s.load FROM link_stats AS s
        JOIN links AS l ON l.scenario = s.scenario AND l.link_id = s.link_id
        JOIN nodes AS n ON n.scenario = s.scenario AND n.node_id = l.src_node
        ORDER BY s.load DESC, s.scenario, s.link_id LIMIT 10""",
    "intervals": """
        SELECT scenario, quantile, flows, estimate, lo, hi, method_error FROM intervals
        WHERE size_bin = 'all' AND service IS NULL AND vnet IS NULL ORDER BY scenario, quantile""",
    "waits at links": """
        SELECT scenario, link_id, COUNT(*) AS n FROM hop_contributions
        GROUP BY scenario, link_id ORDER BY n DESC, scenario, link_id LIMIT 10""",
    "warnings": "SELECT scenario, kind, COUNT(*) AS n FROM warnings GROUP BY scenario, kind ORDER BY scenario, kind",
    "lists": """
        SELECT scenario, link_id, crowded_at_ns, crowded_bytes FROM link_stats
        WHERE max_queue_bytes > 20000 ORDER BY scenario, link_id LIMIT 20""",
}


def answer_of_lake(program, lake, sql):
    """Returns the rows of "parsimon query"."""
    done = subprocess.run([program, "query", "--lake", lake, "--sql", sql, "--format", "json"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{program} query: {done.stderr}")
    return [list(row.values()) for row in json.loads(done.stdout)]


def ask_at(place, want):
    """Asks all readers all questions at one place. Returns the answers that are not the expected ones, as texts."""
    failed = []
    print(f"{place}:")
    print(f"{'':22}" + "".join(f"{reader.name:>12}" for reader in READERS))
    readers = [reader(published(place)) for reader in READERS]
    for reader in readers:
        reader.open(dict.fromkeys(TABLES))
    for question, sql in QUESTIONS.items():
        line = f"{question:22}"
        for reader in readers:
            try:
                got = plain(reader.ask(sql))
                said = "equal" if got == want[question] else "DIFFERS"
            except Exception as err:  # a reader's own
                got, said = err, "FAILS"
            if said != "equal":
                failed.append(f"{reader.name}, {question}:\n  got  {str(got)[:600]}\n  want {str(want[question])[:600]}")
            line += f"{said:>12}"
        print(line, flush=True)
    return failed


def main():
    program, lake, *places = sys.argv[1:]
    want = {name: answer_of_lake(program, lake, sql) for name, sql in QUESTIONS.items()}
    failed = []
    for place in places:
        failed += ask_at(place, want)
    for one in failed:
        print(one, file=sys.stderr)
    print(f"{len(QUESTIONS) * len(READERS) * len(places) - len(failed)} passed, {len(failed)} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
