"""One run of all systems on all tasks, with predictions and metrics for a report."""

from .extras import CODER_FOLDER, CURRENT_FILE, gather_extras, illustrate
from .making import SystemMaker
from .run import METRICS_FILE, run_suite
from .specification import KINDS, SystemSpecification, read_systems
from .tasks import SuiteTask, make_tasks

__all__ = [
    "CODER_FOLDER",
    "CURRENT_FILE",
    "KINDS",
    "METRICS_FILE",
    "SuiteTask",
    "SystemMaker",
    "SystemSpecification",
    "gather_extras",
    "illustrate",
    "make_tasks",
    "read_systems",
    "run_suite",
]
