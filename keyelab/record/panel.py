"""The widget panel at the top of a notebook: it mirrors parameters and holds none.

A change acts on the cells run after it and says the line that keeps it in the parameters cell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keyelab.record.nb import Step

MIRRORED = ("target", "dry_run", "verbose")


def show_panel(step: Step) -> None:
    """Show target, dry run and verbosity of a step as widgets."""
    import ipywidgets
    from IPython.display import display

    from keyelab.params import targets

    note = ipywidgets.Label("mirrors the parameters cell; a change acts on the cells below")
    target = ipywidgets.Dropdown(
        options=targets(), value=step.params.target, description="target", disabled=True
    )
    switches = [
        ipywidgets.Checkbox(value=getattr(step.params, name), description=name, indent=False)
        for name in MIRRORED[1:]
    ]

    def changed(event: Any) -> None:
        name = event["owner"].description
        step.params = step.params.model_copy(update={name: event["new"]})
        step.sources[name] = "panel"
        note.value = (
            f"acts from here on; to keep it: {name} = {event['new']} in the parameters cell"
        )

    for switch in switches:
        switch.observe(changed, names="value")
    panel = ipywidgets.VBox([ipywidgets.HBox([target, *switches]), note])
    panel.add_class("keyelab-panel")
    display(panel)
