"""Known failures: what a log says went wrong, why, and what to type next.

Base module: it imports errors and files only, so phase folders, notebooks, the engine and the
command line may all call it.

    report = diagnose([log])
    report.cause        the first cause, or None
    report.rows()       a table for a notebook; str(report) is markdown

catalogue.yaml holds the failures, `entry` its form, `scan` finds candidate lines in gigabytes of
log, `line` undoes what terminals and containers add, `match` brings them together.
"""

from __future__ import annotations

from keyelab.diagnose.finding import Finding
from keyelab.diagnose.match import diagnose
from keyelab.diagnose.report import Report

__all__ = ["Finding", "Report", "diagnose"]
