"""How many rows of an index to fetch, and how far to look for them."""

from collections.abc import Iterator

# What a search with a filter costs: the number of rows that could be compared exactly in the same time (measured on
# 72,000 names) for any search of the index, for a row fetched from it, and for one `effort`, as a share of all rows.
FREE_ROWS = 4000
ROWS_PER_FETCHED = 25
SHARE_PER_EFFORT = 0.01
# More effort finds hardly more (measured on filters that allow the half of the names farthest from a mention).
MOST_EFFORT = 8
# Fetching more rows than this for every query takes memory, and an approximate index does not have them all.
MOST_FETCHED = 10_000


def grow_to(n_rows: int, fetch: int) -> Iterator[int]:
    """Give growing numbers of rows to fetch, the last of them all there are.

    n_rows (int): The rows there are.
    fetch (int): The first number.
    YIELDS (int): Rows to fetch.
    """
    while fetch < n_rows:
        yield fetch
        fetch *= 4
    yield n_rows


def grow_while_cheap(wanted: int, n_allowed: int, n_rows: int) -> Iterator[int]:
    """Give growing numbers of rows to fetch, until comparing with all that a filter allows takes less time.

    wanted (int): Allowed rows that are wanted.
    n_allowed (int): Rows that the filter allows, at least one.
    n_rows (int): The rows there are.
    YIELDS (int): Rows to fetch; none if exact search is the faster from the start.
    """
    # The first holds the rows wanted, if what is allowed is spread evenly.
    fetch = -(-wanted * n_rows // n_allowed)
    while fetch <= MOST_FETCHED:
        cost = FREE_ROWS + ROWS_PER_FETCHED * fetch + SHARE_PER_EFFORT * n_rows * get_effort(fetch, wanted)
        if cost >= n_allowed:
            break
        yield fetch
        fetch *= 4


def get_effort(fetch: int, wanted: int) -> int:
    """Choose how many times the usual part of an index to look through: what is allowed can lie far from a mention.

    fetch (int): Rows to fetch.
    wanted (int): Allowed rows that are wanted.
    RETURNS (int): The index's `effort`.
    """
    return min(-(-fetch // wanted), MOST_EFFORT)
