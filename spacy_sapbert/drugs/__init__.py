"""Drug strings: read them, and link them to the concepts of a terminology with clinical drugs, such as RxNorm."""

from .reader import read_drug as read_drug
from .reading import DrugString as DrugString
