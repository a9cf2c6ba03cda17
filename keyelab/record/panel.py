"""The widget panel at the top of a notebook: it mirrors parameters and holds none.

A change acts on the cells run after it and says the line that keeps it in the parameters cell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from keyelab import params as parameters
from keyelab.errors import KeyelabError

if TYPE_CHECKING:
    from keyelab.record.nb import Step

CHOSEN = ("parameters cell", "panel")


def show_panel(step: Step) -> None:
    """Show target, dry run and verbosity of a step as widgets."""
    import ipywidgets
    from IPython.display import display

    note = ipywidgets.Label("Mirrors the parameters cell; a change acts on the cells below.")
    target = ipywidgets.Dropdown(
        options=parameters.targets(), value=step.params.target, description="target"
    )
    switches = [
        ipywidgets.Checkbox(
            value=getattr(step.params, name),
            description=name,
            indent=False,
            layout={"width": "auto"},
        )
        for name in ("dry_run", "verbose")
    ]

    def changed(event: Any) -> None:
        name, value = event["owner"].description, event["new"]
        try:
            step.take(changed_parameters(step, name, value))
        except KeyelabError as error:
            note.value = str(error)
            return
        note.value = f"Acts from here on; to keep it, write {name} = {value!r} above."

    for widget in (target, *switches):
        widget.observe(changed, names="value")
    panel = ipywidgets.VBox([ipywidgets.HBox([target, *switches]), note])
    panel.add_class("keyelab-panel")
    display(panel)


def changed_parameters(step: Step, name: str, value: Any) -> parameters.Resolved[Any]:
    """The parameters of a step with one changed; a new target brings its own values."""
    chosen = {n: getattr(step.params, n) for n, source in step.sources.items() if source in CHOSEN}
    chosen[name] = value
    target = chosen.pop("target", step.params.target)
    return parameters.resolve(step.phase, target, chosen, "panel")
