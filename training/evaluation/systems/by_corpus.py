"""Systems with a model for each corpus, such as encoders that were fine-tuned on its training part."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ...errors import Errors
from ..tasks import CorpusTask
from .base import System

# What stands for the name of the corpus in the path of a model.
CORPUS = "{corpus}"


def name_model(path: str, task: CorpusTask) -> str:
    """Name the model of a task's corpus.

    path (str): The path of the models, with "{corpus}" for the name of the corpus.
    task (CorpusTask): The task.
    RETURNS (str): The path of the model.
    """
    return path.replace(CORPUS, task.name.rpartition(".")[0])


class CorpusSystems(System):
    """A system with a model for each corpus.

    path (str): The path of the models, in which "{corpus}" stands for the name of the corpus.
    make (Callable): Makes the system of a model, of its path.
    """

    def __init__(self, path: str, make: Callable[[str], System]) -> None:
        self.path = path
        self._make = make
        self._last: tuple[str, System] | None = None

    def bind(self, task: CorpusTask) -> System:
        """Choose the model of the task's corpus. See `System.bind`.

        RAISES (FileNotFoundError): If there is none.
        """
        path = name_model(self.path, task)
        if not Path(path).exists():
            raise FileNotFoundError(Errors.E752.format(path=path, system="with a model for each corpus"))
        if self._last is None or self._last[0] != path:
            self.release()
            self._last = path, self._make(path)
        return self._last[1].load().bind(task)

    def release(self) -> None:
        """Free the memory of the last model. See `System.release`."""
        if self._last is not None:
            self._last[1].release()
        self._last = None
