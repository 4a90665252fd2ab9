"""Formulas in MathML, spaced as TeX spaces them.

latex2mathml finds the symbols; browsers, which know only MathML Core, then set ``\\log p`` without
a space, bars and slashes with one, and columns of aligned equations centred. Here that is put
right, and a displayed formula is cut where it has a wide space, so that its parts can stand below
each other on a narrow screen.
"""

import re
from xml.etree import ElementTree

from latex2mathml.converter import convert

NAMESPACE = "http://www.w3.org/1998/Math/MathML"
ElementTree.register_namespace("", NAMESPACE)

OPEN, CLOSE = set("([{⟨⌈"), set(")]}⟩⌉")
RELATIONS = set("=<>≤≥≈∝∼→←↦∈∣,;:")
LIMITS = {"max", "min", "lim inf", "lim sup"}
SCRIPT = {"L": "ℒ"}


def inline(latex):
    return _serialised(_tree(latex, display=False))


def display(latex):
    """One ``math`` element for each part of each line, or a single one if lines are aligned."""
    latex = latex.strip()
    if re.search(r"(?<!\\)&", latex) and "\\begin" not in latex:
        return [[_serialised(_tree(rf"\begin{{align*}}{latex}\end{{align*}}", display=True))]]
    lines = [_split(line, r"\quad", r"\qquad") for line in _split(latex, r"\\")]
    return [[_serialised(_tree(part, display=True)) for part in line] for line in lines]


def _split(latex, *separators):
    """Cut where a separator stands outside all braces, brackets and environments."""
    parts, depth, start = [], 0, 0
    for token in re.finditer(r"\\(?:begin|end|left|right|q?quad)(?![a-zA-Z])|\\.|[{}]", latex):
        if token[0] in ("{", r"\begin", r"\left"):
            depth += 1
        elif token[0] in ("}", r"\end", r"\right"):
            depth -= 1
        elif token[0] in separators and depth == 0:
            parts.append(latex[start : token.start()])
            start = token.end()
    parts.append(latex[start:])
    return [part.strip() for part in parts if part.strip()]


def _tree(latex, display):
    tree = ElementTree.fromstring(convert(latex, display="block" if display else "inline"))
    _mend(tree, display)
    return tree


def _serialised(tree):
    return ElementTree.tostring(tree, encoding="unicode", short_empty_elements=False)


def _mend(element, display):
    tag = _tag(element)
    if tag == "mstyle":
        display = element.get("displaystyle") == "true"
    if tag == "mtable":
        display = element.get("displaystyle") == "true"
        _align(element)
    if tag == "mfrac":
        display = False
    for child in element:
        _mend(child, display)
    _rename(element)
    if tag == "msub" and display and element[0].text in LIMITS:
        element.tag = f"{{{NAMESPACE}}}munder"
    if tag in ("math", "mrow", "mtd", "msqrt", "mstyle"):
        _group(element)
        _space(element)


def _align(table):
    """By style: MathML Core has no ``columnalign``."""
    aligned = table.get("columnspacing") == "0em 2em"
    for cell in table.iter(f"{{{NAMESPACE}}}mtd"):
        side = cell.attrib.pop("columnalign", None)
        if side:
            padding = {"right": "; padding-right: 0", "left": "; padding-left: 0"}[side]
            cell.set("style", f"text-align: {side}" + padding * aligned)


def _rename(element):
    """Elements that MathML Core draws as meant."""
    tag, text = _tag(element), element.text or ""
    variant = element.get("mathvariant")
    if tag == "mi" and text == "~":
        element.tag, element.text = f"{{{NAMESPACE}}}mo", "∼"
    elif tag == "mo" and len(text) > 1 and text.isascii():
        element.tag = f"{{{NAMESPACE}}}mi"
    elif tag == "mo" and text[:3] == "lim":
        element.tag, element.text = f"{{{NAMESPACE}}}mi", text.replace("\u2006", " ")
    elif variant == "monospace":
        element.tag = f"{{{NAMESPACE}}}mtext"
        element.set("style", "font-family: monospace")
    elif variant == "script":
        element.text = SCRIPT[text]
        del element.attrib["mathvariant"]
    elif tag == "mo" and text in "|‖/.":
        element.attrib.update(lspace="0", rspace="0")


def _group(row):
    """Large brackets under one exponent: the closing one alone would not be drawn large."""
    for end, child in enumerate(list(row)):
        if _tag(child) in ("msup", "msub") and child[0].get("minsize"):
            opening = (k for k in range(end) if row[k].text in OPEN and row[k].get("minsize"))
            start = max(opening, default=None)
            if start is None:
                continue
            inside = ElementTree.Element(f"{{{NAMESPACE}}}mrow")
            inside[:] = [*row[start:end], child[0]]
            child[0] = inside
            row[:] = [*row[:start], child, *row[end + 1 :]]
            return _group(row)


def _space(row):
    """Signs without an operand before them, and thin spaces around names of functions."""
    children = list(row)
    for before, child in zip([None, *children], children, strict=False):
        if _tag(child) == "mo" and child.text in ("−", "+", "±") and _starts(before):
            child.set("form", "prefix")
            child.attrib.update(lspace="0", rspace="0")
    spaced = []
    for before, child in zip([None, *children], children, strict=False):
        if before is not None and _needs_space(before, child):
            spaced.append(ElementTree.Element(f"{{{NAMESPACE}}}mspace", width="0.167em"))
        spaced.append(child)
    row[:] = spaced


def _starts(before):
    """Whether what follows begins an expression."""
    if before is None or _tag(before) == "mspace":
        return True
    return _tag(before) == "mo" and (before.text or "") in OPEN | RELATIONS


def _needs_space(before, child):
    if "mspace" in (_tag(before), _tag(child)):
        return False
    if _is_function(before):
        return _is_function(child) or _tag(child) != "mo" or _core(child).text == "∇"
    if _is_function(child):
        return _tag(before) != "mo" or (before.text or "") in CLOSE | {"∇"}
    return False


def _is_function(element):
    core = _core(element)
    return _tag(core) == "mi" and len(core.text or "") > 1 and core.text.replace(" ", "").isascii()


def _core(element):
    """What an element with indices is about."""
    while _tag(element) in ("msub", "msup", "msubsup", "munder") and len(element):
        element = element[0]
    return element


def _tag(element):
    return element.tag.rpartition("}")[2]
