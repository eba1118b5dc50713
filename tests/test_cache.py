"""The cache forgets what was used least recently, and nothing else."""

from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_sapbert.snapshot import LRUCache

operation = st.tuples(st.sampled_from(["get", "put"]), st.integers(0, 6), st.integers())


@settings(deadline=None)
@given(st.integers(0, 5), st.lists(operation, max_size=60))
def test_cache_behaves_like_a_list_ordered_by_use(size, operations):
    cache = LRUCache(size)
    model: list[tuple[int, int]] = []  # least recently used first
    for kind, key, value in operations:
        held = dict(model)
        if kind == "get":
            assert cache.get(key) == held.get(key)
            if key in held:
                model = [pair for pair in model if pair[0] != key] + [(key, held[key])]
        else:
            cache.put(key, value)
            model = [pair for pair in model if pair[0] != key] + [(key, value)]
            model = model[-size:] if size else []
        assert len(cache._values) == len(model)
    for key, value in model:
        assert cache.get(key) == value
