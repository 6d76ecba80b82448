"""The reference of the Python packages: signatures and docstrings, read without an import."""
import re

from repository import ROOT

from .text import escaped

FOLDER = "reference/python"
# What a Quantizer's annotate() is given; the package does not export their names.
SEEN_BY_QUANTIZERS = ["GraphView", "Node", "Value", "Annotations", "AnnotationReport"]
ARGUMENTS = re.compile(r"(?:^|(?<=\. ))([a-z_]+(?:, [a-z_]+)*): ", re.MULTILINE)


def names_of(item):
    """The arguments of a function, or the attributes of a class."""
    if item.is_function:
        return {parameter.name for parameter in item.parameters}
    return set(item.attributes) | {p.name for p in getattr(item, "parameters", [])}


def prose(item):
    """A docstring as Markdown: what begins with the name of an argument becomes a list."""
    if not item.docstring:
        return ""
    known, parts = names_of(item), []
    text = re.sub(r"(?:\n|(?<=\.) )(?=Raises |Returns )", "\n\n", item.docstring.value)
    for paragraph in re.split(r"\n\n+", text):
        if all(line.startswith("    ") for line in paragraph.splitlines()):
            code = "".join(f"{line[4:]}\n" for line in paragraph.splitlines())
            parts.append(f"```python\n{code}```")
            continue
        listed = [found for found in ARGUMENTS.finditer(paragraph)
                  if known.issuperset(found[1].split(", "))]
        lead = paragraph[:listed[0].start() if listed else None]
        if lead.strip():
            parts.append(escaped(" ".join(lead.split())))
        rows = []
        for found, behind in zip(listed, listed[1:] + [None]):
            text = paragraph[found.end():behind.start() if behind else None]
            names = ", ".join(f"`{name}`" for name in found[1].split(", "))
            rows.append(f"- {names}: {escaped(' '.join(text.split()))}")
        if rows:
            parts.append("\n".join(rows))
    return "\n\n".join(parts) + "\n\n"


def signature(name, item):
    """How something is called, as a block of code; a long one has a line for each argument."""
    if item.is_attribute:
        return f"```python\n{name}: {item.annotation}\n```\n\n"
    import griffe  # here and in pages() alone: tests use the other references without it
    shown, kinds = [], griffe.ParameterKind
    parameters = list(item.parameters)
    if item.parent.is_class and parameters and parameters[0].name in ("self", "cls"):
        del parameters[0]
    for at, parameter in enumerate(parameters):
        star = {kinds.var_positional: "*", kinds.var_keyword: "**"}.get(parameter.kind, "")
        if parameter.kind == kinds.keyword_only and not any(p.startswith("*") for p in shown):
            shown.append("*")
        text = star + parameter.name
        if parameter.annotation is not None:
            text += f": {parameter.annotation}"
        if parameter.default is not None and not star:
            text += f" = {parameter.default}" if parameter.annotation else f"={parameter.default}"
        shown.append(text)
    result = f" -> {item.returns}" if item.returns is not None else ""
    line = f"{name}({', '.join(shown)}){result}"
    if len(line) > 80:
        line = f"{name}(\n    " + ",\n    ".join(shown) + f",\n){result}"
    return f"```python\n{line.replace('_octet.', '')}\n```\n\n"


def heading(level, name, kind):
    return f"{'#' * level} `{name}`{{ .{kind} }}\n\n"


def class_text(name, item):
    """A class: what it is, its fields, its properties and methods."""
    text = heading(2, name, "class")
    fields = [a for a in item.attributes.values() if "property" not in a.labels]
    if "dataclass" in item.labels and fields:
        lines = [f"    {a.name}: {a.annotation}" + (f" = {a.value}" if a.value is not None else "")
                 for a in fields if a.annotation is not None]
        text += "```python\n" + f"{name}(\n" + ",\n".join(lines) + ",\n)\n```\n\n"
    text += prose(item)
    # Properties first: what follows a heading belongs to it.
    for member in sorted(item.members.values(), key=lambda m: "property" not in m.labels):
        public = not member.name.startswith("_") or member.name == "__call__"
        if not public or member.is_alias or not member.docstring:
            continue
        if "property" in member.labels:
            text += f"`{member.name}` *{escaped(str(member.annotation))}*\n"
            text += f":   {escaped(' '.join(member.docstring.value.split()))}\n\n"
        elif member.is_function:
            shown = name[0].lower() + name[1:] if member.name == "__call__" else member.name
            text += heading(3, f"{name}.{member.name}", "method") + signature(shown, member)
            text += prose(member)
    return text


def item_text(name, item):
    """A class, or a function, which gets its signature."""
    if item.is_class:
        return class_text(name, item)
    return heading(2, name, "function") + signature(name, item) + prose(item)


def resolved(package, name):
    """What a name of a package is; names that are set to others' (load = _octet.load) followed."""
    item = package[name]
    while item.is_alias:
        item = item.final_target
    if item.is_attribute and item.value is not None:
        return resolved(package, str(item.value))
    return item


def page_of(package, more):
    exported = [str(name) for name in package.exports]
    items = {name: resolved(package, name) for name in exported}
    functions = {name: item for name, item in items.items() if item.is_function}
    classes = {name: item for name, item in items.items() if not item.is_function}
    doc = package.docstring.value
    lead, _, example = doc.partition("\n\n")
    example = "\n".join(line.removeprefix("    ") for line in example.splitlines())
    text = f"# {package.name}\n\n{escaped(lead)}\n\n```python\n{example}\n```\n\n"
    text += "".join(item_text(*entry) for entry in functions.items())
    text += "".join(item_text(*entry) for entry in classes.items())
    return text + "".join(item_text(name, package["_octet"][name]) for name in more)


def pages():
    import griffe
    loader = griffe.GriffeLoader(search_paths=[ROOT / "tools/python"])
    packages = {name: loader.load(name) for name in ("octet_runtime", "octet")}
    loader.resolve_aliases(implicit=False)
    return {
        f"{FOLDER}/octet.md": page_of(packages["octet"], SEEN_BY_QUANTIZERS),
        f"{FOLDER}/octet_runtime.md": page_of(packages["octet_runtime"], []),
    }
