#!/usr/bin/env python3
"""Asks readers of Iceberg tables the same questions as "parsimon query", and compares the answers.

    readers.py PARSIMON LAKE PLACE [S3_ENDPOINT]

PARSIMON is the program. PLACE is a directory or s3://BUCKET/PREFIX to which LAKE was published. Each answer must be equal
to the bit. It prints a table of readers and questions, and exits with 1 if an answer differs.
"""
import json
import math
import os
import subprocess
import sys
import urllib.parse

import duckdb
import polars as pl
import pyarrow
import pyiceberg.table

TABLES = ["scenarios", "nodes", "links", "slowdowns", "link_stats", "intervals", "warnings", "hop_contributions"]

# SQL that DuckDB and polars both understand. Floating-point values are not added, since the order of additions differs.
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


def plain(value):
    """Returns a value in the form that JSON has."""
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, float) and (math.isnan(value) or math.isinf(value)):
        return str(value)
    if hasattr(value, "item"):
        return plain(value.item())
    if type(value).__name__ == "Decimal":
        return int(value)
    return value


class Files:
    """The metadata files of published tables."""

    def __init__(self, place, endpoint):
        self.place = place
        self.endpoint = endpoint
        self.s3 = {}
        if place.startswith("s3://"):
            self.s3 = {"s3.endpoint": endpoint, "s3.access-key-id": os.environ["AWS_ACCESS_KEY_ID"],
                       "s3.secret-access-key": os.environ["AWS_SECRET_ACCESS_KEY"], "s3.region": "us-east-1"}

    def read(self, path):
        """Returns the text of a file."""
        from pyiceberg.io.pyarrow import PyArrowFileIO
        with PyArrowFileIO(self.s3).new_input(path).open() as f:
            return f.read().decode()

    def metadata(self, table):
        """Returns the path of the current metadata of a table, as version-hint.text names it."""
        version = self.read(f"{self.place}/{table}/metadata/version-hint.text").strip()
        return f"{self.place}/{table}/metadata/v{version}.metadata.json"


def with_duckdb(files):
    """The extension iceberg of DuckDB."""
    import duckdb_extension_avro
    import duckdb_extension_httpfs
    import duckdb_extension_iceberg
    db = duckdb.connect(config={"autoinstall_known_extensions": False})
    modules = [duckdb_extension_avro, duckdb_extension_iceberg]
    if files.s3:
        modules.insert(0, duckdb_extension_httpfs)
    for module in modules:
        name = module.__name__.removeprefix("duckdb_extension_")
        db.execute(f"LOAD '{os.path.dirname(module.__file__)}/extensions/v{duckdb.__version__}/{name}.duckdb_extension'")
    if files.s3:
        at = urllib.parse.urlparse(files.endpoint)
        db.execute(f"""CREATE SECRET (TYPE s3, KEY_ID '{files.s3["s3.access-key-id"]}',
            SECRET '{files.s3["s3.secret-access-key"]}', REGION 'us-east-1', ENDPOINT '{at.netloc}', URL_STYLE 'path',
            USE_SSL false)""")
    for table in TABLES:
        db.execute(f"CREATE VIEW {table} AS SELECT * FROM iceberg_scan('{files.place}/{table}')")
    return lambda sql: [list(row) for row in db.execute(sql).fetchall()]


def with_pyiceberg(files):
    """pyiceberg reads the rows; DuckDB, without its extension, answers over them."""
    db = duckdb.connect()
    for table in TABLES:
        static = pyiceberg.table.StaticTable.from_metadata(files.metadata(table), properties=files.s3)
        db.register(table, static.scan().to_arrow())
    return lambda sql: [list(row) for row in db.execute(sql).fetchall()]


def with_polars(files):
    """polars, with its own SQL."""
    options = {}
    if files.s3:
        options = {"aws_endpoint_url": files.endpoint, "aws_region": "us-east-1", "aws_allow_http": "true",
                   "aws_access_key_id": files.s3["s3.access-key-id"],
                   "aws_secret_access_key": files.s3["s3.secret-access-key"]}
    context = pl.SQLContext()
    for table in TABLES:
        static = pyiceberg.table.StaticTable.from_metadata(files.metadata(table), properties=files.s3)
        context.register(table, pl.scan_iceberg(static, storage_options=options or None))
    return lambda sql: [list(row) for row in context.execute(sql, eager=True).rows()]


READERS = {"duckdb": with_duckdb, "pyiceberg": with_pyiceberg, "polars": with_polars}


def main():
    program, lake, place = sys.argv[1:4]
    files = Files(place.rstrip("/"), sys.argv[4] if len(sys.argv) > 4 else None)
    want = {name: answer_of_lake(program, lake, sql) for name, sql in QUESTIONS.items()}
    failed = []
    print(f"{'':22}" + "".join(f"{name:>12}" for name in READERS))
    ask = {name: make(files) for name, make in READERS.items()}
    for question, sql in QUESTIONS.items():
        line = f"{question:22}"
        for reader in READERS:
            try:
                got = plain(ask[reader](sql))
                said = "equal" if got == want[question] else "DIFFERS"
            except Exception as err:  # a reader's own
                got, said = err, "FAILS"
            if said != "equal":
                failed.append(f"{reader}, {question}:\n  got  {str(got)[:600]}\n  want {str(want[question])[:600]}")
            line += f"{said:>12}"
        print(line)
    for one in failed:
        print(one, file=sys.stderr)
    print(f"{len(QUESTIONS) * len(READERS) - len(failed)} passed, {len(failed)} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
