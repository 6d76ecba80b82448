"""The reference of JSON files: their schemas' definitions, keys and values."""
import json

from repository import ROOT

from .text import escaped

SCHEMAS = {
    "quantizer": (ROOT / "quantizers/quantizer.schema.json",
                  "[How these files are used](../../quantizers/JSON.md)."),
    "page": (ROOT / "tools/page/page.schema.json",
             "The data in the [report page](../../tools/page/README.md), and `nodes` of "
             "`--report F.json`."),
}


def link(reference):
    name = reference.rsplit("/", 1)[-1]
    return "the whole" if reference == "#" else f"[{escaped(name)}](#{name})"


def joined(parts, word):
    return f" {word} ".join(dict.fromkeys(part for part in parts if part))


def value_text(schema):
    """What a value may be, as one phrase of Markdown."""
    if schema is True or schema == {}:
        return "anything"
    if "$ref" in schema:
        return link(schema["$ref"])
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return joined((value_text(part) for part in schema[key]), "or")
    if "then" in schema and "if" in schema:
        return joined((value_text(schema["then"]), value_text(schema.get("else", {}))), "or")
    kinds = schema.get("type", "object" if "properties" in schema else "")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    return joined((kind_text(kind, schema) for kind in kinds), "or") or "anything"


def kind_text(kind, schema):
    if kind == "array":
        length = schema.get("minItems"), schema.get("maxItems")
        size = f" of {length[0]}" if length[0] and length[0] == length[1] else ""
        items = schema.get("items", {})
        inside = ", then ".join(value_text(item) for item in items) if isinstance(items, list) \
            else value_text(items)
        return f"a list{size}: {inside}"
    if kind == "object":
        more = schema.get("additionalProperties")
        if "properties" in schema:
            return "an object with " + ", ".join(f"`{key}`" for key in schema["properties"])
        return f"an object whose values are {value_text(more)}" if isinstance(more, dict) \
            else "an object"
    bounds = [f"{word} {schema[key]}" for key, word in
              (("minimum", "from"), ("exclusiveMinimum", "above"), ("maximum", "to"),
               ("exclusiveMaximum", "below"), ("pattern", "of the form")) if key in schema]
    word = {"string": "text", "number": "a number", "integer": "an integer", "null": "`null`",
            "boolean": "`true` or `false`"}.get(kind, kind)
    return " ".join([word] + [escaped(bound) for bound in bounds])


def keys_text(schema):
    """A definition list of an object's keys."""
    needed, parts = schema.get("required", []), []
    for key, value in schema.get("properties", {}).items():
        about = value.get("description", "") if isinstance(value, dict) else ""
        remark = " *required*" if key in needed else ""
        about = f"{about.rstrip('.')}. " if about else ""
        parts.append(f"`{key}`{remark}\n:   {escaped(about)}{capital(value_text(value))}.\n\n")
    return "".join(parts)


def capital(text):
    return text[:1].upper() + text[1:]


def definition_text(name, schema):
    text = f"## {name.replace('_', chr(92) + '_')} {{ #{name} }}\n\n"
    if "description" in schema:
        text += escaped(schema["description"]) + "\n\n"
    keys = keys_text(schema)
    for part in schema.get("allOf", []):
        keys += keys_text(part) if "properties" in part else ""
    return text + (keys or f"{capital(value_text(schema))}.\n\n")


def pages():
    made = {}
    for name, (path, about) in SCHEMAS.items():
        schema = json.loads(path.read_text())
        text = f"# `{path.name}`\n\n{escaped(schema['title'])}. {about}\n\n"
        if schema.get("properties"):
            text += "## The whole\n\n" + keys_text(schema)
        parts = reversed(schema["definitions"].items())  # the whole first, its parts after it
        text += "".join(definition_text(*part) for part in parts)
        made[f"reference/json/{name}.md"] = text
    return made
