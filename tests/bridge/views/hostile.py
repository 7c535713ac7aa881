"""Evaluates every hostile expression on every hostile object, and prints what was admitted as JSON, a line for each:
the expression, the nanoseconds of CPU, and its budget. The last line has the growth of the peak memory in bytes.

A process of its own: the peak of the memory is the process's.
"""

from __future__ import annotations

import json
import resource
import time
from typing import Any

from bridge.views.language import Cel, EvaluationFailed, Expression, Purpose
from bridge.views.language.cost import budget

TRIES = 5
"""The least of so many counts where one is above the budget: beside other work a CPU is slower."""

EXPRESSIONS = (
    # A text is searched, counted, cut or copied in each round.
    "object.l.exists(w, object.s.indexOf(string(w)) > 0)",
    "object.l.exists(w, object.s.lastIndexOf(object.w) > 0)",
    "object.l.exists(w, object.s.contains(string(w)) && false)",
    "object.l.exists(w, size(object.s) < 0)",
    "object.l.exists(w, object.s.split('').size() < 0)",
    "object.l.exists(w, object.t.split(',').exists(x, x == 'no'))",
    "object.l.exists(w, object.s.trim() == 'x')",
    "object.l.exists(w, object.s.substring(1).charAt(3) == 'no')",
    "object.l.exists(w, bytes(object.s) == b'')",
    "object.l.exists(w, object.s < object.t && false)",
    "object.l.exists(w, object.s.startsWith(object.t) && false)",
    "object.l.exists(w, '%s %s'.format([object.s, w]) == '')",
    "object.l.exists(w, '%.900f'.format([1.5]) == '')",
    "object.l.exists(w, object.s.matches('^a*b'))",
    "object.l.exists(w, 'a'.matches('[a-z]+\\\\pL'))",
    "object.l.exists(w, cel.bind(y, object.s.split('a'), y.size() < 0))",
    "object.m.all(k, object.m[k] != object.s)",
    # The library copies the list for each item.
    "object.l.map(x, string(x)).join(',') == 'a'",
    "object.l.map(x, x).size() == 1",
    "object.l.filter(x, true).size() == 1",
    "object.l.map(x, [x]).map(x, x[0]).exists(x, x == 'no')",
    "object.l.map(x, {'a': x, 'b': object.s, 'c': [x, x]}).size() == 1",
    "object.t.split('').map(x, x + 'b').join('') == ''",
    # Products of lists.
    "object.l.exists(x, object.l.exists(y, y == 'no'))",
    "object.l.exists(x, x in object.l && false)",
    "object.l.exists(x, 'no' in object.m)",
    "object.l.exists(x, object.m == object.l)",
    "object.l.map(a, object.l.map(b, b)).size() == 0",
    "object.l.exists(a, dyn(a).exists(b, dyn(b).exists(c, c == 'no')))",
    # A text is made of many.
    "object.s.replace('a', object.w) == ''",
    "object.s.replace('', object.w) == ''",
    "object.t.split(',').join(object.w) == ''",
    "'%s'.format([[object.l, object.l, object.m]]) == ''",
    "strings.quote(object.s).reverse().upperAscii() == ''",
    "cel.bind(a, object.s + object.s, cel.bind(b, a + a, cel.bind(c, b + b, cel.bind(d, c + c, d + d)))) == ''",
    # A text nearly is the sought one, or an expression has many states.
    "object.s.contains(object.w)",
    "object.s.matches('(a|b)*a(a|b){20}c')",
    "object.s.matches('(.*)(.*)(.*)(.*)(.*)[c-z]')",
    # Only values.
    "object == object",
    "object.l == object.m",
)
RETURNED = ("object", "{'a': object.l, 'b': object.l}", "object.l.map(x, object.m)", "object.t.split('')")


def hostile(times: int) -> list[dict[str, Any]]:
    """Objects of some 3 KB, so many times."""
    many = 300 * times
    keys = [f"{n}" for n in range(many)]
    return [
        {"l": list(range(many)), "s": "a" * 10 * many, "m": {}, "t": "ab," * many, "w": "a" * 200 + "b"},
        {"l": ["w"] * many, "s": "x" * 10 * many, "m": dict.fromkeys(keys, ""), "t": "," * many, "w": "a"},
        {"l": [[["a"] * 10] * 10] * (times * 3), "s": "é" * many, "m": {"": {}}, "t": "a" * many, "w": "b"},
        {"l": ["a" * many] * 10, "s": "a" * 9 * many, "m": {"a": ["c" * many]}, "t": " " * many, "w": "a" * many + "b"},
        {"l": [{"a": '"'}] * many, "s": '"' * 10 * many, "m": {key: [] for key in keys}, "t": "", "w": ""},
    ]


def nanoseconds(expression: Expression, bound: Any) -> int | None:
    """Of CPU; None for what is refused before it is evaluated."""
    start = time.process_time_ns()
    try:
        (expression.value if expression.text in RETURNED else expression.evaluate)(bound)
    except EvaluationFailed as error:
        if "too many" in expression.why_failed(error):
            return None
    return time.process_time_ns() - start


def main() -> None:
    language = Cel()
    expressions = [language.compile(each, Purpose.WHERE) for each in EXPRESSIONS]
    expressions += [language.compile(each, Purpose.DATA) for each in RETURNED]
    objects = [each for times in (1, 6, 36) for each in hostile(times)]
    encoded = [len(json.dumps(each)) for each in objects]
    for size, manifest in zip(encoded, objects, strict=True):
        whole = expressions[0].bind({"object": manifest})
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for expression in expressions:
            bound = expression.bind({"object": manifest})
            most = budget(whole.size)
            spent = nanoseconds(expression, bound)
            for _ in range(TRIES):
                if spent is not None and spent > most:
                    spent = nanoseconds(expression, bound)
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            if spent is not None:
                print(json.dumps([expression.text, spent, most, size, 1024 * grown]))


if __name__ == "__main__":
    main()
