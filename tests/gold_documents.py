"""Documents with gold mentions, the encoder of pipelines that link them, and figures by their names."""

import numpy as np
import spacy
from spacy.tokens import DocBin
from spacy.util import filter_spans
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from spacy_sapbert.exchange.documents import DOC_ID, OVERLAPPING
from training.encoders.export import write_static_encoder


def annotate(text, gold):
    """Make a document with mentions from (start, end, id): of those that overlap, the longest is an entity."""
    doc = spacy.blank("en")(text)
    spans = [doc.char_span(start, end, label="X", kb_id=id_) for start, end, id_ in gold]
    doc.ents = filter_spans(spans)
    doc.spans[OVERLAPPING] = [span for span in spans if span not in doc.ents]
    return doc


def write_documents(path, *documents):
    """Write texts with their gold mentions, numbered from 1."""
    docs = [annotate(*document) for document in documents]
    for number, doc in enumerate(docs, 1):
        doc.user_data[DOC_ID] = str(number)
    DocBin(docs=docs, store_user_data=True).to_disk(path)


def write_word_encoder(path, words):
    """Write a static encoder in which each word has a direction of its own."""
    words = ["[UNK]", *words.split()]
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.BertPreTokenizer()
    write_static_encoder(path, tokenizer, np.eye(len(words), dtype=np.float32))


def by_name(figures):
    return {figure.metric + (f"_at_{figure.rank}" if figure.rank else ""): figure.value for figure in figures}
