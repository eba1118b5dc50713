"""Drug strings: read them, and link them to the concepts of a terminology with clinical drugs, such as RxNorm."""
