"""The language of expressions: CEL (https://cel.dev), which is the language of Kubernetes' admission policies, too.

cel          compiles, binds values and evaluates, by cel-expr-python
cost         bounds the work of an evaluation by the sizes of the values that it reads
expression   the names, purposes and limits of expressions, and what is wrong with one, in the operator's words
paths        finds the part of an object that an expression reads, and decodes that part alone
syntax       the syntax tree, read from cel-cpp's serialized form
values       makes JSON values of the library's values, and safe words of its errors

The library compiles a text and serializes what it has checked. ``syntax`` reads the tree out of that, ``paths`` finds
what the tree reads, and ``cost`` and ``expression`` refuse what no size bounds and what never does as meant. For each
record, ``cost`` bounds the work from the sizes of the values, and only then the library evaluates; ``values`` bounds
the size of the result. ``cel`` alone knows the library, and the other rooms see ``Cel`` and ``Expression``.
"""

from bridge.views.language.cel import Cel, Expression, MissingLibrary
from bridge.views.language.expression import (
    CHANGED,
    OLD_OBJECT,
    TIME,
    EvaluationFailed,
    ExpressionProblem,
    Purpose,
)

__all__ = [
    "CHANGED",
    "OLD_OBJECT",
    "TIME",
    "Cel",
    "EvaluationFailed",
    "Expression",
    "ExpressionProblem",
    "MissingLibrary",
    "Purpose",
]
