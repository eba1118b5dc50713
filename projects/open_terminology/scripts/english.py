"""Make the list of how common English words are, for the matcher, from the lists of SCOWL (http://wordlist.aspell.net)."""

from pathlib import Path

import numpy as np
import typer
from safetensors.numpy import save_file
from spacy.strings import hash_string

from spacy_sapbert.files import write_whole
from spacy_sapbert.lexicon.english import SHIFT
from spacy_sapbert.lexicon.scan import list_words

# Higher levels have words that few people know.
LEVELS = (10, 20, 35, 40, 50, 55, 60)
SPELLINGS = ("english", "american", "british")


def main(lists: Path, output: Path) -> None:
    """Read the files such as `english-words.10` of a folder, and write the normal forms of their words as hashes."""
    levels: dict[int, int] = {}
    for level in LEVELS:
        for spelling in SPELLINGS:
            for word in (lists / f"{spelling}-words.{level}").read_text(encoding="latin1").split():
                for normal in list_words(word):
                    levels.setdefault(int(hash_string(normal)) >> int(SHIFT), level)
    words = sorted(levels)
    arrays = {
        "words": np.array(words, dtype=np.uint32),
        "levels": np.array([levels[word] for word in words], dtype=np.uint8),
    }
    with write_whole(output) as path:
        save_file(arrays, path)
    typer.echo(f"{len(words):,} words: {output}")


if __name__ == "__main__":
    typer.run(main)
