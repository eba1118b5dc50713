"""Systems of several seeds, which a config lists in one section."""

import pytest

from training.evaluation.systems.specification import read_systems


def read(tmp_path, *lines):
    (tmp_path / "systems.cfg").write_text("\n".join(["[systems]", "", *lines]))
    return read_systems(tmp_path / "systems.cfg")


def test_a_section_with_seeds_is_a_system_of_each(tmp_path):
    lines = ['kind = "encoder"', 'title = "A"', 'encoder = "runs/seed-{seed}"', 'pooling = "cls"']
    together = read(tmp_path, "[systems.a]", *lines, "seeds = [3, 0]", "", "[systems.exact]", 'kind = "exact"')
    apart = read(
        tmp_path,
        *("[systems.a_3]", *lines[:2], 'encoder = "runs/seed-3"', lines[3], 'group = "a"', "seed = 3", ""),
        *("[systems.a_0]", *lines[:2], 'encoder = "runs/seed-0"', lines[3], 'group = "a"', "seed = 0", ""),
        *("[systems.exact]", 'kind = "exact"'),
    )
    assert together == apart
    assert list(together) == ["a_3", "a_0", "exact"]


def test_models_of_seeds_may_be_of_corpora_too(tmp_path):
    lines = ["[systems.b]", 'kind = "biosyn"', 'model = "biosyn/{corpus}/seed-{seed}"', "seeds = [1]"]
    assert read(tmp_path, *lines)["b_1"].model == "biosyn/{corpus}/seed-1"


@pytest.mark.parametrize(
    "lines, reason",
    [
        (['encoder = "a-{seed}"'], "needs `seeds`"),
        (['encoder = "a-{seed}"', "seed = 3"], "needs `seeds`"),
        (['encoder = "a-{seed}"', "seeds = 3"], "seeds = 3 is no list of whole numbers"),
        (['encoder = "a-{seed}"', "seeds = []"], "no list of whole numbers"),
        (['encoder = "a-{seed}"', 'seeds = ["0"]'], "no list of whole numbers"),
        (['encoder = "a-{seed}"', "seeds = [0, 0]"], "distinct"),
        (['encoder = "a"', "seeds = [0, 1]"], "{seed} in the path"),
        (['encoder = "a-{seed}"', "seeds = [0]", "seed = 0"], "replace `group` and `seed`"),
        (['encoder = "a-{seed}"', "seeds = [0]", 'group = "a"'], "replace `group` and `seed`"),
    ],
)
def test_malformed_seeds_are_refused(tmp_path, lines, reason):
    with pytest.raises(ValueError, match=rf"(?s)E751.*systems\.a.*{reason}"):
        read(tmp_path, "[systems.a]", 'kind = "encoder"', *lines)


def test_names_of_seeds_that_are_there_are_refused(tmp_path):
    first = ["[systems.a_0]", 'kind = "exact"', ""]
    with pytest.raises(ValueError, match=r"(?s)E751.*systems\.a.*a_0"):
        read(tmp_path, *first, "[systems.a]", 'kind = "encoder"', 'encoder = "a-{seed}"', "seeds = [0]")
