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
    socket.socket.connect = refuse  # type: ignore[method-assign]
    socket.socket.connect_ex = refuse  # type: ignore[method-assign]
    socket.create_connection = refuse
    socket.getaddrinfo = refuse
    import spacy
    from wasabi import msg

    start = time.perf_counter()
    nlp = spacy.load("en_hpo_demo")
    msg.info(
        f"Loaded en_hpo_demo from {Path(spacy.__file__).parent.parent.name} in {time.perf_counter() - start:.1f} s"
    )
    expected = [json.loads(line) for line in links.read_text(encoding="utf8").splitlines()]
    for record, doc in zip(expected, nlp.pipe(record["text"] for record in expected), strict=True):
        found = [(ent.text, ent.kb_id_, ent._.kb_candidates) for ent in doc.ents]
        wanted = [(ent["text"], ent["id"], ent["candidates"]) for ent in record["ents"]]
        if not is_same(found, wanted):
            msg.fail(f"Other links than before packaging in: {doc.text}", f"{found}\n{wanted}", exits=1)
    msg.good(f"{len(expected)} sentences have identical links after packaging, installation and loading offline")


def is_same(found: list[tuple[str, str, list]], wanted: list[tuple[str, str, list]]) -> bool:
    """Compare the links of one sentence; scores may differ by rounding."""
    if [link[:2] for link in found] != [link[:2] for link in wanted]:
        return False
    pairs = [pair for left, right in zip(found, wanted, strict=True) for pair in zip(left[2], right[2], strict=True)]
    return all(
        {**left, "score": 0} == {**right, "score": 0} and abs(left["score"] - right["score"]) < TOLERANCE
        for left, right in pairs
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
