"""Print the page of licences from a bill of materials: `python deploy/licences.py SBOM.cdx.json`."""

import json
import sys
from pathlib import Path
from typing import Any

HEAD = """\
# Licences of dependencies

<!-- Made by `make dist-check`; change `deploy/licences.py`, not this page. -->

ContextInfinity is under the Apache License 2.0. These packages are installed with it and all its extras (Linux, Python
3.11), with the licence that each states. `make dist-check` writes a bill of materials (CycloneDX) with their versions.

| package | licence |
| --- | --- |
"""
UNSTATED = {
    "apsw-sqlite3mc": "any OSI-approved licence (APSW); SQLite: public domain; SQLite3MultipleCiphers: MIT",
    "protobuf": "BSD-3-Clause",
    "wordllama": "MIT",
}
"""Licences that the metadata of a package does not name."""


def licence_of(component: dict[str, Any]) -> str:
    """Return the licence that a component states: an expression, identifiers or names; empty for none."""
    stated = component.get("licenses", [])
    found = [one.get("expression") or one["license"].get("id") or one["license"].get("name", "") for one in stated]
    names = dict.fromkeys(name.removeprefix("License :: ").removeprefix("OSI Approved :: ") for name in found)
    return ", ".join(name for name in names if name and "\n" not in name and name != "OSI Approved")


def main(path: str) -> None:
    """Print the page."""
    components = json.loads(Path(path).read_text(encoding="utf-8"))["components"]
    stated = {one["name"].lower().replace("_", "-"): licence_of(one) for one in components if one["name"] != "pip"}
    rows = sorted((name, licence or UNSTATED.get(name, "not stated")) for name, licence in stated.items())
    sys.stdout.write(HEAD + "".join(f"| {name} | {licence} |\n" for name, licence in rows))


if __name__ == "__main__":
    main(sys.argv[1])
