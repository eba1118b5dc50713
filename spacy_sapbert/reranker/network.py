"""The network that scores candidates and NIL, and its loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from thinc.api import Dropout, Linear, Model, NumpyOps, Relu, chain, zero_init

from ..ragged import list_owners, make_offsets

# Starts that are tried: the weight of the score, and the score at which NIL is as probable as a candidate.
SCALES = (5.0, 10.0, 20.0, 40.0, 80.0)
NIL_SCORES = np.linspace(0.0, 1.0, 21)
# A feature that deviates by less is the same for all candidates.
SAME = 1e-6
# A probability of 0 or 1 has the logit of one that is this far from it.
EDGE = 1e-6
# thinc's own types of arrays are not NumPy's.
NetworkModel = Model[Any, Any]
Item = TypeVar("Item")
# Features by their names: the words that explain a decision by each, and what computes its column.
Features = dict[str, tuple[str, Callable[[Item], np.ndarray]]]


def compute_columns(features: Features[Item], of: Item) -> list[np.ndarray]:
    """Compute the columns of features, in their order."""
    return [column(of) for _, column in features.values()]


def sigmoid(scores: np.ndarray) -> np.ndarray:
    """Compute the probabilities of logits."""
    return np.asarray(1 / (1 + np.exp(-np.clip(scores, -30, 30))))


def logit(probabilities: np.ndarray) -> np.ndarray:
    """Compute the logits of probabilities."""
    clipped = np.clip(probabilities, EDGE, 1 - EDGE)
    return np.asarray(np.log(clipped / (1 - clipped)))


class Lists:
    """The places of candidates and mentions in flat arrays: `lengths` says how many candidates each mention has."""

    def __init__(self, lengths: np.ndarray | Sequence[int]) -> None:
        self.lengths = np.asarray(lengths, dtype=np.int64)
        self.offsets = make_offsets(self.lengths)
        self.n_mentions = len(self.lengths)
        self.n_candidates = int(self.offsets[-1])
        # Which mention each candidate belongs to, and its place in that mention's list.
        rows = np.arange(self.n_candidates)
        self.mention = list_owners(self.offsets)
        self.place = rows - self.offsets[self.mention]
        # In arrays with a row for NIL behind each mention's candidates: the rows of candidates, of NIL, and the first.
        mentions = np.arange(self.n_mentions)
        self.rows = rows + self.mention
        self.nil_rows = self.offsets[1:] + mentions
        self.starts = self.offsets[:-1] + mentions

    def best(self, values: np.ndarray, empty: float = 0.0) -> np.ndarray:
        """Get the largest value, or row of values, of each list; `empty` for lists without candidates."""
        largest = np.full((self.n_mentions, *values.shape[1:]), empty, dtype=values.dtype)
        is_filled = self.lengths > 0
        if is_filled.any():
            # Without the empty lists, the end of each is the start of the next.
            starts = self.offsets[:-1][is_filled]
            largest[is_filled] = np.maximum.reduceat(values, starts, axis=0)
        return largest

    def first(self, values: np.ndarray) -> np.ndarray:
        """Get the value, or row of values, of each list's first candidate; 0 for lists without candidates."""
        first = np.zeros((self.n_mentions, *values.shape[1:]), dtype=values.dtype)
        is_filled = self.lengths > 0
        starts = self.offsets[:-1][is_filled]
        first[is_filled] = values[starts]
        return first

    def sort(self, scores: np.ndarray) -> np.ndarray:
        """List the rows of the candidates, best first, mention after mention. Ties stay in their order."""
        # A row for each list, because short rows are sorted in a fraction of the time.
        longest = int(self.lengths.max(initial=0))
        table = np.full((self.n_mentions, longest), np.inf)
        table[self.mention, self.place] = -scores
        rows = np.argsort(table, axis=1, kind="stable") + self.offsets[:-1, None]
        is_filled = np.arange(longest) < self.lengths[:, None]
        return np.asarray(rows[is_filled])

    def find_alike(self, order: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Find the candidates that have a number in common with the first one of their list in an order."""
        return np.asarray((numbers == self.first(numbers[order])[self.mention]).any(axis=1))

    def lower(self, values: np.ndarray) -> np.ndarray:
        """Lower each value to the least one before it in its list."""
        lowered: np.ndarray = values.copy()
        for place in range(1, int(self.lengths.max(initial=0))):
            rows = np.flatnonzero(self.place == place)
            lowered[rows] = np.minimum(lowered[rows], lowered[rows - 1])
        return lowered

    def with_nil(self, values: np.ndarray, nil: np.ndarray) -> np.ndarray:
        """Put a value for NIL behind those of each list's candidates."""
        rows = np.empty(self.n_candidates + self.n_mentions, dtype=np.result_type(values, nil))
        rows[self.rows] = values
        rows[self.nil_rows] = nil
        return rows

    def softmax(self, logits: np.ndarray) -> np.ndarray:
        """Turn scores, with those of NIL, into probabilities that sum to one for each mention."""
        if not self.n_mentions:
            return np.zeros(0, dtype=np.float64)
        sizes = self.lengths + 1
        top = np.repeat(np.maximum.reduceat(logits, self.starts), sizes)
        powers = np.exp((logits - top).astype(np.float64))
        return np.asarray(powers / np.repeat(np.add.reduceat(powers, self.starts), sizes))


class ListInput(NamedTuple):
    """What the network sees."""

    features: np.ndarray  # shape (candidates, features), float32
    scores: np.ndarray  # the score of each candidate without annotations; float32
    lists: Lists
    # Two numbers of each candidate, of the name that was found and of the canonical name. Of a mention's candidates,
    # those with an equal one count as one: nothing but their order says which is meant. Shape (candidates, 2), int64.
    alike: np.ndarray


def build_decision_network_v1(width: int = 64) -> NetworkModel:
    """Build a network that scores the candidates of a mention, and NIL as one more row.

    The score of a candidate is a weight times its score without annotations, plus a hidden layer of its standardised
    features. NIL is scored by a hidden layer of the first candidate's features and of the largest of each feature. Last
    layers start with zeros, so that the order starts as it is without annotations.

    width (int): Units of each hidden layer.
    RETURNS (Model[ListInput, ndarray]): The network. Its result has the rows of `Lists.with_nil`.
    """
    model: NetworkModel = Model(
        "decision_network",
        _forward,
        init=_initialize,
        layers=[_build_layers(width), _build_layers(width)],
        params=dict.fromkeys(("scale", "weight", "nil", "mean", "deviation")),
        dims={"nI": None},
    )
    # Lists of 30 candidates are too short for a GPU to pay, and their features are NumPy arrays.
    model._to_ops(NumpyOps())
    return model


def _build_layers(width: int) -> NetworkModel:
    # Dropout's rate is set by `nlp.update`, as for all components.
    layers: list[Any] = [Relu(width), Dropout(0.0), Linear(1, init_W=zero_init)]
    hidden: NetworkModel = chain(*layers)
    return hidden


def start_network(model: NetworkModel, given: ListInput, is_right: np.ndarray) -> None:
    """Start the network as what decides without annotations, with what fits a sample best: mean and deviation of each
    feature, the weight of the score, and the score of NIL. Weights start afresh. `is_right` has the rows of
    `Lists.with_nil`."""
    features = given.features
    n_features = features.shape[1]
    mean = np.zeros(n_features)
    deviation = np.ones(n_features)
    if len(features):
        # In float64: a sum of many equal float32 numbers is off by so much that they seem to vary.
        mean = features.mean(axis=0, dtype=np.float64)
        deviation = features.std(axis=0, dtype=np.float64)
    # What takes long comes before the first change.
    scale, nil = _fit_start(given, is_right)
    # Trained before, it can have had other features: a size changes only without parameters.
    for node in model.walk():
        for name in node.param_names:
            node.set_param(name, None)
    model.set_dim("nI", n_features, force=True)
    _set_param(model, "mean", mean)
    # A feature that is the same for all training candidates is divided by infinity: whatever it is for others, the
    # network has learned nothing of it.
    _set_param(model, "deviation", np.where(deviation > SAME, deviation, np.inf))
    _set_param(model, "scale", [scale])
    _set_param(model, "weight", [scale])
    _set_param(model, "nil", [scale * nil])
    for layers, size in zip(model.layers, (n_features, 2 * n_features), strict=True):
        for node in (layers, layers.layers[0]):
            node.set_dim("nI", size, force=True)
        layers.initialize(np.zeros((1, size), dtype=np.float32))


def _set_param(model: NetworkModel, name: str, value: Any) -> None:
    array: Any = np.asarray(value, dtype=np.float32)
    model.set_param(name, array)


def _inc_grad(model: NetworkModel, name: str, value: Any) -> None:
    array: Any = np.asarray([value], dtype=np.float32)
    model.inc_grad(name, array)


def _fit_start(given: ListInput, is_right: np.ndarray) -> tuple[float, float]:
    """Return the weight of the score, and the score that stands for NIL, with the least loss."""
    lists = given.lists

    def get_loss(pair: tuple[float, float]) -> float:
        scale, nil = pair
        nil_scores = np.full(lists.n_mentions, nil, dtype=np.float32)
        logits = scale * lists.with_nil(given.scores, nil_scores)
        return listwise_loss(logits, is_right, lists, start=given.scores, pull=0.0)[0]

    pairs = [(scale, float(nil)) for scale in SCALES for nil in NIL_SCORES]
    return min(pairs, key=get_loss)


def get_start(model: NetworkModel, given: ListInput) -> np.ndarray:
    """Get the candidates' logits as they were before training, without rows for NIL."""
    return np.asarray(model.get_param("scale")[0] * given.scores)


def _initialize(model: NetworkModel, X: object = None, Y: object = None) -> None:
    """Leave the start to `start_network`, which knows the features."""


def _forward(model: NetworkModel, X: ListInput, is_train: bool) -> tuple[np.ndarray, Callable[[np.ndarray], ListInput]]:
    lists = X.lists
    standard = X.features - model.get_param("mean")
    standard /= model.get_param("deviation")
    np.clip(standard, -5, 5, out=standard)
    of_list = np.hstack([lists.first(standard), lists.best(standard)])
    candidates, backprop_candidates = model.layers[0](standard, is_train)
    nil, backprop_nil = model.layers[1](of_list, is_train)
    logits = candidates[:, 0] + model.get_param("weight")[0] * X.scores

    def backprop(d_rows: np.ndarray) -> ListInput:
        d_nil = d_rows[lists.nil_rows]
        d_logits = d_rows[lists.rows]
        _inc_grad(model, "weight", d_logits @ X.scores)
        _inc_grad(model, "nil", d_nil.sum())
        backprop_nil(np.ascontiguousarray(d_nil[:, None]))
        backprop_candidates(np.ascontiguousarray(d_logits[:, None]))
        return X

    nil_logits = nil[:, 0] + model.get_param("nil")[0]
    return lists.with_nil(logits, nil_logits), backprop


def listwise_loss(
    logits: np.ndarray, is_right: np.ndarray, lists: Lists, *, start: np.ndarray, pull: float
) -> tuple[float, np.ndarray]:
    """Compute the mean loss of the mentions and its gradient by the logits, which have rows for NIL.

    The loss of a mention is -log of the probability of all right rows together, plus `pull` times the mean squared
    distance between the candidates' logits and `start`, those of the linker alone. Each mention has a right row.
    """
    probabilities = lists.softmax(logits)
    sizes = lists.lengths + 1
    right_ones = np.where(is_right, probabilities, 0.0)
    right = np.maximum(np.add.reduceat(right_ones, lists.starts), 1e-30)
    gradient = probabilities - right_ones / np.repeat(right, sizes)
    loss = -np.log(right).sum()
    if pull and lists.n_candidates:
        distance = logits[lists.rows] - start
        weights = pull / lists.lengths[lists.mention]
        loss += float((weights * distance**2).sum())
        gradient[lists.rows] += 2 * weights * distance
    return float(loss / lists.n_mentions), (gradient / lists.n_mentions).astype(np.float32)
