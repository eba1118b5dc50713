"""The network that scores candidates and NIL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from thinc.api import Dropout, Linear, Model, NumpyOps, Relu, chain, zero_init

from .lists import Lists
from .loss import listwise_loss

# Starts that are tried: the weight of the cosine, and the cosine at which NIL is as probable as a candidate.
SCALES = (5.0, 10.0, 20.0, 40.0, 80.0)
NIL_COSINES = np.linspace(0.0, 1.0, 21)


class ListInput(NamedTuple):
    """What the network sees.

    features (ndarray): The features of each candidate; shape (candidates, features), float32.
    scores (ndarray): The linker's cosine of each candidate; float32.
    lists (Lists): The candidates of each mention.
    """

    features: np.ndarray
    scores: np.ndarray
    lists: Lists


# thinc's own types of arrays are not NumPy's.
NetworkModel = Model[Any, Any]


def build_decision_network_v1(width: int = 64) -> NetworkModel:
    """Build a network that scores the candidates of a mention, and NIL as one more row.

    The score of a candidate is a weight times the linker's cosine, plus a hidden layer of its standardised features.
    NIL is scored by a hidden layer of the first candidate's features and of the largest of each feature. Last layers
    start with zeros, so that the order starts as the linker's.

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


def _build_layers(width: int) -> Model[Any, Any]:
    # Dropout's rate is set by `nlp.update`, as for all components.
    layers: list[Any] = [Relu(width), Dropout(0.0), Linear(1, init_W=zero_init)]
    hidden: Model[Any, Any] = chain(*layers)
    return hidden


def start_network(model: NetworkModel, given: ListInput, is_right: np.ndarray) -> None:
    """Start the network as the linker, with what fits a sample best: mean and deviation of each feature, the weight of
    the cosine, and the score of NIL. Weights start anew.

    model (Model[ListInput, ndarray]): The network.
    given (ListInput): Mentions of training documents.
    is_right (ndarray): Whether each row of `Lists.with_nil` is right.
    """
    features = given.features
    n_features = features.shape[1]
    mean = features.mean(axis=0) if len(features) else np.zeros(n_features)
    deviation = features.std(axis=0) if len(features) else np.ones(n_features)
    # Trained before, it can have had other features: a size changes only without parameters.
    for node in model.walk():
        for name in node.param_names:
            node.set_param(name, None)
    model.set_dim("nI", n_features, force=True)
    _set_param(model, "mean", mean)
    # What is the same for all training candidates says nothing of others.
    _set_param(model, "deviation", np.where(deviation > 1e-6, deviation, np.inf))
    scale, nil = _fit_start(given, is_right)
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
    """Return the weight of the cosine, and the cosine that stands for NIL, with the least loss."""
    lists = given.lists

    def get_loss(scale: float, nil: float) -> float:
        logits = scale * lists.with_nil(given.scores, np.full(lists.n_mentions, nil, dtype=np.float32))
        return listwise_loss(logits, is_right, lists, start=given.scores, pull=0.0)[0]

    return min(((scale, float(nil)) for scale in SCALES for nil in NIL_COSINES), key=lambda pair: get_loss(*pair))


def get_start(model: NetworkModel, given: ListInput) -> np.ndarray:
    """Get the candidates' logits as they were before training.

    model (Model[ListInput, ndarray]): The network.
    given (ListInput): The mentions.
    RETURNS (ndarray): A logit for each candidate, without the row for NIL.
    """
    start: np.ndarray = model.get_param("scale")[0] * given.scores
    return start


def _initialize(model: NetworkModel, X: object = None, Y: object = None) -> None:
    """Leave the start to `start_network`, which knows the features."""


def _forward(model: NetworkModel, X: ListInput, is_train: bool) -> tuple[np.ndarray, Callable[[np.ndarray], ListInput]]:
    lists = X.lists
    standard = np.clip((X.features - model.get_param("mean")) / model.get_param("deviation"), -5, 5)
    of_list = np.hstack([lists.first(standard), lists.best(standard)])
    candidates, backprop_candidates = model.layers[0](standard, is_train)
    nil, backprop_nil = model.layers[1](of_list, is_train)
    logits = candidates[:, 0] + model.get_param("weight")[0] * X.scores

    def backprop(d_rows: np.ndarray) -> ListInput:
        d_nil = d_rows[lists.nil_rows]
        d_logits = d_rows[np.arange(lists.n_candidates) + lists.mention]
        _inc_grad(model, "weight", d_logits @ X.scores)
        _inc_grad(model, "nil", d_nil.sum())
        backprop_nil(np.ascontiguousarray(d_nil[:, None]))
        backprop_candidates(np.ascontiguousarray(d_logits[:, None]))
        return X

    return lists.with_nil(logits, nil[:, 0] + model.get_param("nil")[0]), backprop
