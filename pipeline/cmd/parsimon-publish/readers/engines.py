"""Readers of Iceberg tables that others wrote. Each answers SQL about published tables.

    published(place)                where tables are published, and their metadata
    Reader(files).open(tables)      makes tables visible: their names, each with a snapshot or None for the current one
    reader.ask(sql)                 returns rows
"""
import json
import math
import os
import urllib.parse

import duckdb
import polars as pl
import pyiceberg.table
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO

os.environ.setdefault("POLARS_ICEBERG_PLANNER", "pyiceberg")  # the other one is a package of its own
SPARK_JARS = ".cache/spark/jars"
NAMESPACE = "parsimon"


def s3_properties():
    """Returns the properties of pyiceberg for the S3 server and the keys that the AWS tools' variables name."""
    return {"s3.endpoint": os.environ["AWS_ENDPOINT_URL"], "s3.region": "us-east-1",
            "s3.access-key-id": os.environ["AWS_ACCESS_KEY_ID"],
            "s3.secret-access-key": os.environ["AWS_SECRET_ACCESS_KEY"]}


def published(place):
    """Returns the tables of a directory, of s3://BUCKET/PREFIX or of the catalog rest:URL."""
    if place.startswith("rest:"):
        return Catalog(place.removeprefix("rest:"))
    return Files(place)


class Files:
    """The metadata files of published tables, in a directory or below s3://BUCKET/PREFIX.

    The AWS tools' environment variables have the address of the S3 server and the keys.
    """

    def __init__(self, place):
        self.place = place.rstrip("/")
        self.s3 = {}
        if place.startswith("s3://"):
            self.s3 = s3_properties()

    def read(self, path):
        """Returns the text of a file."""
        with PyArrowFileIO(self.s3).new_input(path).open() as f:
            return f.read().decode()

    def metadata(self, table):
        """Returns the path of the current metadata of a table, as version-hint.text names it."""
        version = self.read(f"{self.place}/{table}/metadata/version-hint.text").strip()
        return f"{self.place}/{table}/metadata/v{version}.metadata.json"

    def snapshots(self, table):
        """Returns the ids of the snapshots of a table, oldest first."""
        metadata = json.loads(self.read(self.metadata(table)))
        return [s["snapshot-id"] for s in metadata.get("snapshots", [])]

    def static(self, table):
        """Returns a table as pyiceberg reads it, at its current metadata."""
        return pyiceberg.table.StaticTable.from_metadata(self.metadata(table), properties=self.s3)

    def scan(self, table, snapshot):
        """Returns DuckDB's expression for the rows of a table."""
        at = f", snapshot_from_id = {snapshot}" if snapshot else ""
        return f"iceberg_scan('{self.place}/{table}'{at})"

    def spark_catalog(self):
        """Returns the properties of a Spark catalog. A Hadoop catalog reads version-hint.text, as DuckDB does."""
        return {"type": "hadoop", "warehouse": self.place}

    def spark_name(self, table):
        """Returns the name of a table in the Spark catalog."""
        return table


class Catalog:
    """The published tables that a REST catalog names. Their files are in S3."""

    def __init__(self, uri):
        self.place = uri
        self.s3 = s3_properties()
        self.catalog = RestCatalog("published", uri=uri, **self.s3)

    def metadata(self, table):
        return self.static(table).metadata_location

    def read(self, path):
        return Files.read(self, path)

    def snapshots(self, table):
        return [s.snapshot_id for s in self.static(table).snapshots()]

    def static(self, table):
        return self.catalog.load_table((NAMESPACE, table))

    def scan(self, table, snapshot):
        at = f" AT (VERSION => {snapshot})" if snapshot else ""
        return f"published.{NAMESPACE}.{table}{at}"

    def spark_catalog(self):
        return {"type": "rest", "uri": self.place, "io-impl": "org.apache.iceberg.hadoop.HadoopFileIO"}

    def spark_name(self, table):
        return f"{NAMESPACE}.{table}"


class DuckDB:
    """The extension iceberg of DuckDB. The extensions are loaded from the files of their Python packages."""

    name = "duckdb"

    def __init__(self, files):
        import duckdb_extension_avro
        import duckdb_extension_httpfs
        import duckdb_extension_iceberg
        self.files = files
        self.db = duckdb.connect(config={"autoinstall_known_extensions": False})
        modules = [duckdb_extension_avro, duckdb_extension_iceberg]
        if files.s3:
            modules.insert(0, duckdb_extension_httpfs)
        for module in modules:
            name = module.__name__.removeprefix("duckdb_extension_")
            at = f"{os.path.dirname(module.__file__)}/extensions/v{duckdb.__version__}/{name}.duckdb_extension"
            self.db.execute(f"LOAD '{at}'")
        if files.s3:
            at = urllib.parse.urlparse(files.s3["s3.endpoint"])
            self.db.execute(f"""CREATE SECRET (TYPE s3, KEY_ID '{files.s3["s3.access-key-id"]}',
                SECRET '{files.s3["s3.secret-access-key"]}', REGION 'us-east-1', ENDPOINT '{at.netloc}',
                URL_STYLE 'path', USE_SSL false)""")
        if isinstance(files, Catalog):
            self.db.execute(f"""ATTACH '' AS published (TYPE iceberg, ENDPOINT '{files.place}', AUTHORIZATION_TYPE 'none',
                ACCESS_DELEGATION_MODE 'none')""")

    def open(self, tables):
        for table, snapshot in tables.items():
            self.db.execute(f"CREATE OR REPLACE VIEW {table} AS SELECT * FROM {self.files.scan(table, snapshot)}")

    def ask(self, sql):
        """Asks again if a publication replaced version-hint.text while DuckDB read it, which DuckDB reports."""
        attempts = 5
        while True:
            attempts -= 1
            try:
                return [list(row) for row in self.db.execute(sql).fetchall()]
            except duckdb.HTTPException as error:
                if "ETag" not in str(error) or not attempts:
                    raise


class PyIceberg:
    """pyiceberg reads the rows; DuckDB, without its extension, answers over them."""

    name = "pyiceberg"

    def __init__(self, files):
        self.files = files
        self.db = duckdb.connect()

    def open(self, tables):
        for table, snapshot in tables.items():
            self.db.register(table, self.files.static(table).scan(snapshot_id=snapshot).to_arrow())

    def ask(self, sql):
        return [list(row) for row in self.db.execute(sql).fetchall()]


class Polars:
    """polars, with its own SQL."""

    name = "polars"

    def __init__(self, files):
        self.files = files
        self.options = None
        if files.s3:
            self.options = {"aws_endpoint_url": files.s3["s3.endpoint"], "aws_region": "us-east-1",
                            "aws_allow_http": "true", "aws_access_key_id": files.s3["s3.access-key-id"],
                            "aws_secret_access_key": files.s3["s3.secret-access-key"]}
        self.context = pl.SQLContext()

    def open(self, tables):
        for table, snapshot in tables.items():
            scan = pl.scan_iceberg(self.files.static(table), snapshot_id=snapshot, storage_options=self.options)
            self.context.register(table, scan)

    def ask(self, sql):
        return [list(row) for row in self.context.execute(sql, eager=True).rows()]


class Spark:
    """Spark with Iceberg's runtime."""

    name = "spark"
    catalogs = 0  # of this process, which has one Spark session

    def __init__(self, files):
        self.session = start_spark()
        self.files = files
        Spark.catalogs += 1
        self.catalog = f"published{Spark.catalogs}"
        prefix = f"spark.sql.catalog.{self.catalog}"
        self.session.conf.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
        for key, value in files.spark_catalog().items():
            self.session.conf.set(f"{prefix}.{key}", value)
        self.session.conf.set(f"{prefix}.cache-enabled", "false")

    def open(self, tables):
        for table, snapshot in tables.items():
            at = f" VERSION AS OF {snapshot}" if snapshot else ""
            rows = self.session.sql(f"SELECT * FROM {self.catalog}.{self.files.spark_name(table)}{at}")
            rows.createOrReplaceTempView(table)

    def ask(self, sql):
        return [list(row) for row in self.session.sql(sql).collect()]


def start_spark():
    """Returns the Spark session of this process."""
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark.sql import SparkSession
    jars = sorted(f"{SPARK_JARS}/{jar}" for jar in os.listdir(SPARK_JARS) if jar.endswith(".jar"))
    s3a = "spark.hadoop.fs.s3a."
    config = {
        "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "1", "spark.log.level": "ERROR",
        "spark.jars": ",".join(jars),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        # The metadata of tables in S3 has URLs with s3://, and Hadoop's driver is called s3a.
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        s3a + "endpoint": os.environ["AWS_ENDPOINT_URL"], s3a + "endpoint.region": "us-east-1",
        s3a + "path.style.access": "true", s3a + "access.key": os.environ["AWS_ACCESS_KEY_ID"],
        s3a + "secret.key": os.environ["AWS_SECRET_ACCESS_KEY"],
    }
    builder = SparkSession.builder.master("local[1]").appName("readers")
    for key, value in config.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


READERS = [DuckDB, PyIceberg, Polars, Spark]


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
