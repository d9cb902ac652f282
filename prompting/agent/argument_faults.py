"""Describes faults in the arguments of a tool call (the argument, its required value and the value
that was given), so that the model can correct them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import AliasChoices, BaseModel, ValidationError

from looktwice.pipelines.config.classes import suggest_names
from looktwice.pipelines.json_input import write_json

JsonObject = Mapping[str, Any]

MAX_FAULTS = 3  # reported to the model at once
MAX_SHOWN_CHARACTERS = 60  # characters shown of a value
TYPE_NAMES = {
    "integer": "a whole number",
    "number": "a number",
    "string": "a text",
    "boolean": "true or false",
    "null": "null",
    "object": "an object",
}
BOUND_PHRASES = {
    "minimum": "at least",
    "exclusiveMinimum": "more than",
    "maximum": "at most",
    "exclusiveMaximum": "less than",
}


def describe_faults(arguments: type[BaseModel], given: JsonObject, exc: ValidationError) -> str:
    """Describe the first faults in the given arguments, one clause each."""
    schema = arguments.model_json_schema()
    names = _map_argument_names(arguments, schema)
    faults = dict.fromkeys(_describe_errors(exc, schema, names, given))
    return "; ".join([*faults][:MAX_FAULTS])


def _map_argument_names(arguments: type[BaseModel], schema: JsonObject) -> dict[str, str]:
    """Map every name under which an argument may be given to its name in the schema."""
    names = dict[str, str]()
    for field, info in arguments.model_fields.items():
        alias = info.validation_alias
        choices = alias.choices if isinstance(alias, AliasChoices) else [alias or field]
        known = [str(choice) for choice in (*choices, field) if isinstance(choice, str)]
        shown = next((name for name in known if name in schema.get("properties", {})), field)
        names |= dict.fromkeys(known, shown)
    return names


def _describe_errors(
    exc: ValidationError, schema: JsonObject, names: Mapping[str, str], given: JsonObject
) -> Iterator[str]:
    properties = schema.get("properties", {})
    for error in exc.errors(include_url=False, include_context=False, include_input=False):
        message = str(error["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
        place = str(error["loc"][0]) if error["loc"] else ""
        name = names.get(place, place)
        node = properties.get(name, {})
        if not place:
            yield message
        elif error["type"] == "extra_forbidden" and len(error["loc"]) == 1:
            known = ", ".join(f"`{name}`" for name in properties) or "none"
            hint = suggest_names(place, properties).removesuffix("?")
            yield f"there is no argument `{place[:64]}`{hint}; the arguments are {known}"
        elif error["type"] == "missing" and len(error["loc"]) == 1:
            yield (
                f"`{name}` is missing, it must be"
                f" {_describe_node(node, schema)}{_format_description(node)}"
            )
        elif error["type"] in ("value_error", "assertion_error"):
            yield f"`{name}`: {message}"
        else:
            value = write_json(given.get(place))
            value = (
                value
                if len(value) <= MAX_SHOWN_CHARACTERS
                else f"{value[:MAX_SHOWN_CHARACTERS]}..."
            )
            wanted = _describe_node(node, schema)
            yield f"`{name}` must be {wanted}{_format_description(node)}, got {value}"


def _format_description(node: JsonObject) -> str:
    return f" ({node['description']})" if node.get("description") else ""


def _describe_node(node: JsonObject, schema: JsonObject) -> str:
    """Describe the values that a node of a JSON schema allows."""
    if "$ref" in node:
        name = str(node["$ref"]).rpartition("/")[2]
        return _describe_node(schema.get("$defs", {}).get(name, {}), schema)
    if "enum" in node or "const" in node:
        return " or ".join(map(write_json, node.get("enum", [node.get("const")])))
    if choices := node.get("anyOf") or node.get("oneOf"):
        return " or ".join(_describe_node(choice, schema) for choice in choices)
    if node.get("type") == "array":
        return _describe_list(node, schema)
    kind = TYPE_NAMES.get(str(node.get("type")), "a value of another form")
    bounds = [f"{words} {node[name]:g}" for name, words in BOUND_PHRASES.items() if name in node]
    if "maxLength" in node:
        bounds.append(f"at most {node['maxLength']} characters")
    if "minLength" in node:
        bounds.append(f"at least {node['minLength']} characters")
    return f"{kind} of {' and '.join(bounds)}" if bounds else kind


def _describe_list(node: JsonObject, schema: JsonObject) -> str:
    parts, least, most = node.get("prefixItems"), node.get("minItems"), node.get("maxItems")
    of = _describe_node(parts[0] if parts else node.get("items") or {}, schema)
    what = of.removeprefix("a ") + "s" if of in ("a number", "a whole number", "a text") else of
    if least is not None and least == most:
        return f"a list of {least} {what}"
    bounds = [f"at least {least}"] if least else []
    bounds += [f"at most {most}"] if most is not None else []
    return f"a list of {' and '.join(bounds)} {what}" if bounds else f"a list of {what}"
