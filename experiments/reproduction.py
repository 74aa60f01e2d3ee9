"""What a figure of a paper is, and how its runs are divided, resumed and put together."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import dask
import pandas as pd

Row = dict[str, float | int | str]
Setting = Mapping[str, float | int | str]


@dataclass(frozen=True)
class Task:
    """Part of a figure: some repetitions of one setting."""

    setting: Setting  # whose values are columns of the result
    seeds: range  # of the repetitions

    @property
    def name(self) -> str:
        """Name of the file of the result."""
        values = "_".join(f"{name}={value}" for name, value in self.setting.items())
        return f"{values}_seeds={self.seeds.start}-{self.seeds.stop}.csv"


@dataclass(frozen=True)
class PaperFigure:
    """Figure or table of a paper."""

    title: str  # paper, number and content
    settings: tuple[Setting, ...]  # of the runs
    run: Callable[[Task], list[Row]]  # function from a task to rows of results
    draw: Callable[[pd.DataFrame, Path], None]  # function that draws all rows to an SVG file
    repetitions: int  # number in the paper, or what stands for it
    quick_settings: tuple[Setting, ...] = ()  # of a grid of minutes at most; empty for all settings
    quick_repetitions: int = 3  # of that grid
    seeds_per_task: int = 10  # number of repetitions that an interruption loses at most
    # Folder of the results, which figures of the same runs share; empty for the figure's name.
    runs: str = ""

    def reduced(self) -> PaperFigure:
        """Return the figure with its reduced grid instead of the paper's."""
        settings = self.quick_settings or self.settings
        return replace(self, settings=settings, repetitions=self.quick_repetitions)

    def tasks(self, repetitions: int) -> Iterator[Task]:
        """Yield the tasks of every setting."""
        step = self.seeds_per_task
        for setting in self.settings:
            for start in range(0, repetitions, step):
                yield Task(setting, range(start, min(start + step, repetitions)))


def reproduce(figure: PaperFigure, name: str, out: Path, *, repetitions: int) -> pd.DataFrame:
    """Run what is missing of a figure, in processes, and write NAME.csv and NAME.svg.

    A task whose file exists is not run again, so that the same call continues after an
    interruption, and a call with more repetitions extends the earlier one.
    """
    folder = out / (figure.runs or name)
    folder.mkdir(parents=True, exist_ok=True)
    tasks = list(figure.tasks(repetitions))
    missing = [task for task in tasks if not (folder / task.name).exists()]
    dask.compute(
        *(dask.delayed(_run_one)(figure.run, task, folder / task.name) for task in missing),
        scheduler="processes",
    )
    rows = pd.concat([pd.read_csv(folder / task.name) for task in tasks], ignore_index=True)
    rows.to_csv(out / f"{name}.csv", index=False)
    figure.draw(rows, out / f"{name}.svg")
    return rows


def _run_one(run: Callable[[Task], list[Row]], task: Task, path: Path) -> None:
    unfinished = path.with_suffix(".unfinished")
    pd.DataFrame(run(task)).to_csv(unfinished, index=False)
    os.replace(unfinished, path)
