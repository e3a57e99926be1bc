"""SentencePiece's compiled normalization rules, made of a dictionary."""

import struct


def place(node, at, units, used):
    """Puts the children of `node`, which is unit `at`, where all of them find room, and theirs after them."""
    offset = 1
    while any((at ^ offset ^ label) in used for label in node):
        offset += 1
    base = at ^ offset
    used.update(base ^ label for label in node)
    units += [0] * (max(base ^ label for label in node) + 1 - len(units))
    units[at] |= offset << 10 | (1 << 8 if 0 in node else 0)
    for label, child in node.items():
        units[base ^ label] = child | 1 << 31 if label == 0 else label
    for label, child in node.items():
        if label:
            place(child, base ^ label, units, used)


def charsmap(rules):
    """`rules`: texts and what replaces them. A double-array trie as darts-clone has it, then the replacements."""
    root, replacements = {}, b""
    for text, replacement in rules.items():
        node = root
        for byte in text.encode("utf-8"):
            node = node.setdefault(byte, {})
        node[0] = len(replacements)
        replacements += replacement.encode("utf-8") + b"\0"
    units = [0]
    place(root, 0, units, {0})
    units += [0] * (-len(units) % 256)  # so that no byte leads out of it
    return struct.pack(f"<{len(units) + 1}I", 4 * len(units), *units) + replacements
