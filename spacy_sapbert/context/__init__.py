"""What a text says of a mention: whether it is denied, uncertain, of a relative, of the past."""

from .attributes import (
    ATTRIBUTES as ATTRIBUTES,
    FLAGS as FLAGS,
    GRAPH as GRAPH,
    Attributes as Attributes,
    CueSpan as CueSpan,
    MentionContext as MentionContext,
    has_context as has_context,
    list_attributes as list_attributes,
    read_context as read_context,
    read_cue_spans as read_cue_spans,
    write_context as write_context,
)
