"""Writes the generated files of the chart."""

from __future__ import annotations

from deploy.generator import CHART
from deploy.generator.files import generated


def main() -> None:
    for name, text in generated().items():
        (CHART / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
