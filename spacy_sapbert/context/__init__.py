"""What a text says of a mention: whether it is denied, uncertain, of a relative, of the past."""

from .attributes import (
    ATTRIBUTES as ATTRIBUTES,
)
from .attributes import (
    FLAGS as FLAGS,
)
from .attributes import (
    GRAPH as GRAPH,
)
from .attributes import (
    Attributes as Attributes,
)
from .attributes import (
    CueSpan as CueSpan,
)
from .attributes import (
    MentionContext as MentionContext,
)
from .attributes import (
    has_context as has_context,
)
from .attributes import (
    list_attributes as list_attributes,
)
from .attributes import (
    read_context as read_context,
)
from .attributes import (
    read_cue_spans as read_cue_spans,
)
from .attributes import (
    write_context as write_context,
)
