"""Pages from templates/: every value escaped, a missing one an error."""

from __future__ import annotations

from typing import Any

from keyelab.files import redact
from keyelab.record.cards import cell


def render(name: str, **values: Any) -> str:
    """The page that templates/<name> makes of values, redacted."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("keyelab.record"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["cell"] = cell
    environment.filters["rate"] = rate
    return redact(environment.get_template(name).render(**values))


def rate(value: float) -> str:
    """A speed with three digits or more: 0.123, 12.3, 1,234."""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:,.{digits}f}"
