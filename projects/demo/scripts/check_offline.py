"""Load the installed pipeline without any network, and compare its links with those made before packaging."""

import json
import socket
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

TOLERANCE = 1e-4


def refuse(*args: Any, **kwargs: Any) -> NoReturn:
    """Take the place of what opens connections."""
    raise OSError("the network is switched off for this check")


def main(links: Path) -> None:
    """Compare links."""
    socket.socket.connect = socket.socket.connect_ex = refuse  # type: ignore[method-assign]
    socket.create_connection = socket.getaddrinfo = refuse
    import spacy
    from wasabi import msg

    start = time.perf_counter()
    nlp = spacy.load("en_hpo_demo")
    msg.info(
        f"Loaded en_hpo_demo from {Path(spacy.__file__).parent.parent.name} in {time.perf_counter() - start:.1f} s"
    )
    expected = [json.loads(line) for line in links.read_text(encoding="utf8").splitlines()]
    for record, doc in zip(expected, nlp.pipe(record["text"] for record in expected), strict=True):
        found = [{"text": ent.text, "id": ent.kb_id_, "candidates": ent._.kb_candidates} for ent in doc.ents]
        if not is_same(found, record["ents"]):
            msg.fail(f"Other links than before packaging in: {doc.text}", f"{found}\n{record['ents']}", exits=1)
    msg.good(f"{len(expected)} sentences have identical links after packaging, installation and loading offline")


def is_same(found: list[dict], wanted: list[dict]) -> bool:
    """Compare the links of one sentence; scores may differ by rounding."""
    parts, scores = [], []
    for ents in (found, wanted):
        parts.append([(e["text"], e["id"], [{**entry, "score": 0} for entry in e["candidates"]]) for e in ents])
        scores.append([entry["score"] for e in ents for entry in e["candidates"]])
    return parts[0] == parts[1] and all(abs(one - two) < TOLERANCE for one, two in zip(*scores, strict=True))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
