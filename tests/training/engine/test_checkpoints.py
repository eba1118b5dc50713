"""Checkpoints are replaced all or nothing, whatever fails or is killed half way."""

import shutil
from contextlib import suppress
from functools import partial

import pytest
import torch
from injection import Fault, count_operations, fault_at

from training.engine.checkpoints import choose_checkpoint, list_checkpoints, read_checkpoint, read_step, save_checkpoint


# Two ways to need room: another state of the same step, and a step more, which ends the oldest checkpoint.
@pytest.mark.parametrize("is_killed, step, kept", [(True, 6, [4, 6]), (True, 8, [6, 8]), (False, 8, [6, 8])])
def test_a_fault_or_kill_while_a_checkpoint_is_replaced_leaves_a_whole_one(tmp_path, is_killed, step, kept):
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters())

    def save(folder, step, mark):
        save_checkpoint(folder, model, optimizer, {"step": step, "settings": {}, "mark": mark}, {}, {})

    old = tmp_path / "old"
    for number in (2, 4, 6):
        save(old, number, "old")
    outcomes = []
    counted = shutil.copytree(old, tmp_path / f"{step}")
    for number in range(count_operations(partial(save, counted, step, "new"), counted)):
        folder = shutil.copytree(old, tmp_path / f"{step}-{number}")
        has_failed = True
        with suppress(Fault), fault_at(number, folder, lasting=is_killed):
            save(folder, step, "new")
            has_failed = False
        # What a run that resumes here reads.
        last, damaged = choose_checkpoint(folder)
        assert not damaged, number
        is_new = read_checkpoint(last)["mark"] == "new"
        outcomes.append(is_new)
        assert [read_step(path) for path in list_checkpoints(folder)] == (kept if is_new else [4, 6]), number
        assert is_new or has_failed, number
        save(folder, step, "newer")
        assert read_checkpoint(folder / f"step-{step:08d}")["mark"] == "newer"
        assert [path.name for path in folder.iterdir() if not path.name.startswith("step-")] == [], number
    # A kill before the moment that decides leaves the old ones, and one after it the new ones.
    assert outcomes == sorted(outcomes) or not is_killed
    assert any(outcomes) and not all(outcomes)


def test_folders_of_other_names_are_the_users_own(tmp_path):
    model = torch.nn.Linear(2, 2)
    save = partial(save_checkpoint, tmp_path, model, torch.optim.SGD(model.parameters()))
    save({"step": 1, "settings": {}}, {}, {})
    names = ["step-notes", "step-00000001.old", "step-1", "step-000000010"]
    for name in names:
        shutil.copytree(tmp_path / "step-00000001", tmp_path / name)
        # A damaged checkpoint would be deleted.
        (tmp_path / name / "state.safetensors").unlink()
    for step in (2, 3, 4):
        save({"step": step, "settings": {}}, {}, {})
    assert choose_checkpoint(tmp_path) == (tmp_path / "step-00000004", [])
    assert [read_step(path) for path in list_checkpoints(tmp_path)] == [3, 4]
    assert all((tmp_path / name / "checkpoint.json").is_file() for name in names)
