"""keyelab in Airflow: one task for a whole run, or one task a phase by PapermillOperator.

Set KEYELAB_HOME to the checkout and KEYELAB_TARGET to a folder under params/.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

from airflow.providers.papermill.operators.papermill import PapermillOperator
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG
from papermill.engines import papermill_engines

HOME = Path(os.environ["KEYELAB_HOME"])
TARGET = os.environ.get("KEYELAB_TARGET", "cpu-demo")
BIN = shlex.quote(str(HOME / ".venv" / "bin" / "keyelab"))
RUN = f"records/{TARGET}/airflow-" + "{{ ts_nodash }}"


class KeyelabNotebook(PapermillOperator):
    """A phase's notebook; a dead kernel, a time-out or a failed check fails the task."""

    def execute(self, context: Any) -> Any:
        """Run it with the engine keyelab, which the operator has no parameter for."""
        # the notebook is written when it fails, too
        Path(self.output_nb).parent.mkdir(parents=True, exist_ok=True)
        papermill_engines.register(None, papermill_engines.get_engine("keyelab"))
        return super().execute(context)


with DAG("keyelab_run", schedule=None, catchup=False):
    # leaves a sealed record; its exit code is the task's: 0 passed, anything else failed
    BashOperator(
        task_id="run",
        bash_command=f"{BIN} run --target {shlex.quote(TARGET)}",
        cwd=str(HOME),
        append_env=True,
    )

with DAG("keyelab_phases", schedule=None, catchup=False, max_active_runs=1):
    before = None
    for notebook in sorted((HOME / "notebooks").glob("0*.ipynb")):
        task = KeyelabNotebook(
            task_id=notebook.stem,
            input_nb=str(notebook),
            output_nb=f"{HOME}/{RUN}/{notebook.name}",
            parameters={"target": TARGET, "run_dir": RUN},
            kernel_name="keyelab",
            log_output=True,
        )
        if before is not None:
            before >> task
        before = task
    # 06_serve leaves its server running for the tasks after it; a teardown does not decide the
    # state of the DAG run, as any other last task would
    stop = BashOperator(
        task_id="stop", bash_command=f"{BIN} stop", cwd=str(HOME), append_env=True
    ).as_teardown()
    before >> stop
