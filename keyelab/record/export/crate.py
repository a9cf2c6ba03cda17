"""A record as a Process Run Crate (RO-Crate 1.1).

The crate holds the record as it is, in a folder of its own, so that `keyelab verify` holds there
too. The metadata are plain JSON-LD, no library: it would save the copying alone.
"""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path

from keyelab.files import write_json
from keyelab.record.export import material
from keyelab.record.export.graph import graph

CONTEXT = [
    "https://w3id.org/ro/crate/1.1/context",
    "https://w3id.org/ro/terms/workflow-run/context",  # has sha256, which RO-Crate 1.1 lacks
]
METADATA = "ro-crate-metadata.json"


def write_crate(folder: Path, output: Path, license_url: str = "") -> Path:
    """Write a record as a crate, a folder or a .zip file, whole or not at all.

    Of a log that still grows the crate holds the sealed start. Raises KeyelabError when the record
    is not exportable or a folder `output` is not empty.
    """
    run = material.exportable(folder)
    part = output.parent / f".{output.name}.{secrets.token_hex(4)}"
    packed = part.with_name(f"{part.name}.zip")
    with material.writing(output):
        try:
            copy = shutil.copytree(folder, part / run.run_id)
            for name, start in run.growing.items():
                os.truncate(copy / name, start.size_bytes)
            entities = graph(run, folder, license_url)
            write_json(part / METADATA, {"@context": CONTEXT, "@graph": entities})
            if output.suffix == ".zip":
                shutil.make_archive(str(part), "zip", part)
                packed.replace(output)
            else:
                part.replace(output)
        finally:
            shutil.rmtree(part, ignore_errors=True)
            packed.unlink(missing_ok=True)
    return output
