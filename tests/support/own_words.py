"""Words and numbers in pages and documents that also hold hashes, ids and tokens."""

import re


def stands(words: str, text: str | bytes) -> bool:
    """Whether the words stand in the text with no letter or digit before or after them.

    Among the digits of hashes any number is found sooner or later.
    """
    found = re.escape(words.encode())
    text = text.encode() if isinstance(text, str) else text
    return re.search(rb"(?<![0-9A-Za-z])" + found + rb"(?![0-9A-Za-z])", text) is not None
