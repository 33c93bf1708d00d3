"""An Airflow DAG (2.4 and later) that explains the pumps each night."""

import shlex
import subprocess
from datetime import datetime, timedelta

from airflow import DAG
from airflow.exceptions import AirflowFailException
from airflow.operators.python import PythonOperator

COMMAND = "tempograd explain --config /srv/pumps/night.toml --log json"


def explain():
    """Run the command; what a person has to look at is not tried again."""
    code = subprocess.run(
        shlex.split(COMMAND), cwd="/srv/pumps", check=False
    ).returncode
    if code in {2, 3, 4, 5}:
        raise AirflowFailException(f"tempograd ended with exit code {code}")
    if code:
        raise RuntimeError(
            f"tempograd ended with exit code {code}: it goes on next time"
        )


with DAG(
    "explain_pumps",
    schedule="0 3 * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=5)},
):
    PythonOperator(task_id="explain", python_callable=explain)
