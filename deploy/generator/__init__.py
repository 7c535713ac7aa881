"""Makes the generated files of the chart: ``python -m deploy.generator`` (``make chart``) writes them.

dashboard   files/dashboard.json
files       all of them, by path
names       files/resources.json: kubectl's names of Kubernetes' own resources
panels      the panels of the dashboard
schema      values.schema.json
values      the values beside ``config``, with their types
"""

from __future__ import annotations

from pathlib import Path

CHART = Path(__file__).parents[1] / "chart"
