"""The registered architecture `spacy-sapbert.CrossEncoder.v1`."""

from __future__ import annotations

from typing import Any

from ...settings import with_settings
from .settings import SecondStageSettings
from .stage import SecondStage


@with_settings(SecondStageSettings)
def build_cross_encoder_v1(**settings: Any) -> SecondStage:
    """Build a second stage. Its weights come at `initialize` or from a saved pipeline.

    **settings (Any): Those of `SecondStageSettings`.
    RETURNS (SecondStage): The second stage.
    RAISES (ValueError): If a setting is unknown or its value has no meaning.
    """
    return SecondStage(SecondStageSettings.read(settings, "the second stage"))
