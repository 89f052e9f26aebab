"""A night in Airflow (2.4 or later, and 3): ingest yesterday's flow logs, estimate, remove what is old, publish; then
check gates.

Gates are a task of their own without retries, since a failed gate stays one. The estimate is tried again, and continues
where it stopped.
"""

from datetime import datetime, timedelta

from airflow import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

try:
    from airflow.providers.standard.operators.bash import BashOperator
except ImportError:  # Airflow 2
    from airflow.operators.bash import BashOperator

ENV = {
    "LAKE": "/lake",
    "LOGS": "s3://logs/AWSLogs/*/vpcflowlogs/*/{YEAR}/{MONTH}/{DAY}/*.gz",
    "TOPOLOGY": "s3://network/cables.csv",
    "HOSTS": "s3://network/hosts.csv",
    "LABELS": "s3://network/labels.csv",
    "PUBLISH": "s3://company/parsimon",
}

with DAG(
    dag_id="parsimon_nightly",
    # Not the text alone: Airflow 3 then gives a run the day on which it starts, which is not over.
    schedule=CronDataIntervalTimetable("15 3 * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"env": ENV, "append_env": True},
) as dag:
    # {{ ds }} is the day before the run, on which its data interval begins. Exit code 6 is success with a remark:
    # repeating the task would leave out the same files.
    estimate = BashOperator(
        task_id="estimate",
        bash_command=(
            "nightly.sh {{ ds }} || { code=$?; [ $code = 6 ] || exit $code; "
            "echo 'WARNING: logs that cannot be read were left out: see ingest-{{ ds }}.json'; }"
        ),
        retries=3,
        retry_delay=timedelta(minutes=10),
    )
    gates = BashOperator(
        task_id="gates",
        bash_command=(
            'parsimon run --workload day-{{ ds }} --name {{ ds }} --lake "$LAKE" --quiet --format json '
            "--fail-if 'service=storage p99_slowdown > 5'"
        ),
        retries=0,
    )
    estimate >> gates
