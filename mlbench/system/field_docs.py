"""The docstrings below the fields of a class, read from its source when somebody asks for them.

pydantic can read them too, as it makes a model (``use_attribute_docstrings``): that took a tenth of the imports of a
command, each time, for what only a JSON Schema says.
"""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pydantic import BaseModel


def read_field_docs(kind: type) -> dict[str, str]:
    """Return the docstrings below the fields of a class and of those it inherits from."""
    return {name: text for each in reversed(kind.__mro__) for name, text in _own_docs(each)}


def _own_docs(kind: type) -> Iterator[tuple[str, str]]:
    try:
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except (OSError, TypeError, SyntaxError, ValueError):  # there is no source, or not of one class
        return
    for field, below in pairwise(definition.body if isinstance(definition, ast.ClassDef) else ()):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, inspect.cleandoc(text)


def json_schema_of(model: type[BaseModel], mode: Literal["validation", "serialization"]) -> str:
    """Return the JSON Schema of a model as a file holds it; the docstrings of fields are their descriptions."""
    from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
    from pydantic_core import core_schema

    class Described(GenerateJsonSchema):
        def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
            found = super().model_schema(schema)
            texts = read_field_docs(schema["cls"])
            for name, value in found.get("properties", {}).items():
                if name in texts:
                    value["description"] = texts[name]
            return found

    return json.dumps(model.model_json_schema(mode=mode, schema_generator=Described), indent=2) + "\n"
