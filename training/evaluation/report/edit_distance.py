"""The edits between two short strings."""

from __future__ import annotations


def count_edits(first: str, second: str, limit: int) -> int:
    """Count the edits that make one string the other.

    Edits are insertions, deletions, substitutions and swaps of neighbours, with no place edited twice: the distance of
    optimal string alignment.

    first (str): A string.
    second (str): The other.
    limit (int): Edits that are of interest. Strings further apart are given up early.
    RETURNS (int): The edits, or `limit` + 1 if there are more.
    """
    if abs(len(first) - len(second)) > limit:
        return limit + 1
    before_last: list[int] = []
    last = list(range(len(second) + 1))
    for row, letter in enumerate(first, 1):
        current = [row]
        for column, other in enumerate(second, 1):
            edits = min(last[column] + 1, current[-1] + 1, last[column - 1] + (letter != other))
            if row > 1 and column > 1 and letter == second[column - 2] and first[row - 2] == other:
                edits = min(edits, before_last[column - 2] + 1)
            current.append(edits)
        # A swap looks two rows back.
        if min(current) > limit and min(last) > limit:
            return limit + 1
        before_last, last = last, current
    return min(last[-1], limit + 1)
