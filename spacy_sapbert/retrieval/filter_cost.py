"""What a search with a filter costs: how many rows to fetch with which effort, before exact search is the cheaper."""

from __future__ import annotations

from collections.abc import Iterator

# What a search with a filter costs: the number of rows that could be compared exactly in the same time (measured on
# 72,000 names) for any search of the index, for a row fetched from it, and for one `effort`, as a share of all rows.
FREE_ROWS = 4000
ROWS_PER_FETCHED = 25
SHARE_PER_EFFORT = 0.0015
# Less effort misses rows where a filter allows only names far from a mention: a tuned index searches few leaves.
MOST_EFFORT = 64
# Fetching more rows than this for every query takes memory, and an approximate index does not have them all.
MOST_FETCHED = 10_000


def grow_while_cheap(wanted: int, n_allowed: int, n_rows: int) -> Iterator[int]:
    """Yield growing numbers of rows to fetch, as long as that is faster than comparing with all allowed rows.

    wanted (int): Allowed rows that are wanted.
    n_allowed (int): Rows that the filter allows, at least one.
    n_rows (int): Rows of the index.
    YIELDS (int): Rows to fetch; none if exact search is faster from the start.
    """
    # If allowed rows are spread evenly, the first number contains the wanted rows.
    fetch = -(-wanted * n_rows // n_allowed)
    while fetch <= MOST_FETCHED:
        cost = FREE_ROWS + ROWS_PER_FETCHED * fetch + SHARE_PER_EFFORT * n_rows * get_effort(fetch, wanted)
        if cost >= n_allowed:
            break
        yield fetch
        fetch *= 4


def get_effort(fetch: int, wanted: int) -> int:
    """Choose how much of an approximate index to search, because allowed rows can be far from a mention.

    fetch (int): Rows to fetch.
    wanted (int): Allowed rows that are wanted.
    RETURNS (int): The index's `effort`.
    """
    return min(-(-32 * fetch // wanted), MOST_EFFORT)
