"""What the pages promise is there, and what is there has its page."""

from __future__ import annotations

import re
import tomllib
from typing import get_args

import pytest

from benchmarks import report
from benchmarks.__main__ import BENCHMARKS
from contextinfinity import errors
from contextinfinity.vendors import VENDORS, ProviderName
from tests.house import api_page, pages, repository, rules
from tests.house.repository import ROOT

DOCS = ROOT / "docs"
PAGES = repository.files("*.md")
RECORDS = [path for path in repository.files("docs/decisions/*.md") if path.name != "README.md"]
ERRORS = pages.error_types(errors)

WORDS = [
    *("artifact", "branch", "chunk", "epoch", "fold", "front", "head", "journal", "memory"),
    *("pending", "plan", "session", "state", "step", "thread", "turn", "workspace"),
]


def test_the_drawn_error_tree_is_the_real_one() -> None:
    assert pages.drawn_parents(errors.__doc__ or "") == pages.parents(ERRORS)


def test_the_error_page_is_up_to_date() -> None:
    page = pages.ERRORS_PAGE.read_text(encoding="utf-8")
    assert page == pages.errors_page(ERRORS), "run `python -m tests.house.pages`"


def test_the_page_of_the_python_api_is_up_to_date() -> None:
    assert api_page.PAGE.read_text(encoding="utf-8") == api_page.api_page(), "run `python -m tests.house.pages`"


def test_the_pages_of_benchmarks_and_proof_are_made_from_their_results() -> None:
    for path, text in report.PAGES.items():
        assert path.read_text(encoding="utf-8") == report.page(text), "run `python -m benchmarks --page`"


def test_the_page_of_benchmarks_shows_all_of_them() -> None:
    text = (report.RESULTS / "page.md").read_text(encoding="utf-8")
    shown = [name for line in re.findall(r"^<!-- results: (.+) -->$", text, re.M) for name in line.split()]
    assert sorted(shown) == sorted({*BENCHMARKS, *(path.stem for path in report.RESULTS.glob("*.json"))})


def test_every_reason_for_a_missed_target_belongs_to_a_row() -> None:
    reasons = tomllib.loads((report.RESULTS / "missed.toml").read_text(encoding="utf-8"))
    known = {name: [each.key for each in report.load(name)] for name in reasons}
    unknown = [key for name, rows in reasons.items() for key in rows if not any(k.startswith(key) for k in known[name])]
    assert not unknown, "results/missed.toml names rows that are not in results; rename or remove them"


def test_the_readme_stays_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 200


def test_the_figures_of_the_readme_are_those_of_the_benchmarks() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    measured = {each.what.partition(": ")[2]: each.result for each in report.load("libraries")}
    for name, result in measured.items():
        (row,) = re.findall(rf"^\| {re.escape(name)} \| (\S+) \| (\S+) \|", readme, re.M)
        assert result == "append {} ms, load {} ms".format(*row)
    recall = {each.key: each.values for each in report.load("recall")}
    sets = [recall[f"evidence found within 1,000 tokens ({name}): search"] for name in ("LoCoMo", "BEAM", "REALTALK")]
    shares = [round(each["prompt_percent"]) for each in sets]
    (said,) = re.findall(
        r"a prompt gets (\d+)% of .*?LoCoMo's .*?, (\d+)% of BEAM's .*? (\d+)% of REALTALK's", readme, re.S
    )
    assert [int(share) for share in said] == shares


def test_every_error_has_a_code_of_its_own() -> None:
    codes = [kind.code for kind in ERRORS]
    assert len(set(codes)) == len(codes)


def test_every_word_of_the_design_is_in_the_glossary() -> None:
    entries = pages.headings((DOCS / "glossary.md").read_text(encoding="utf-8"), level=2)
    assert set(WORDS) <= set(entries)
    assert entries == sorted(entries)


def test_every_make_target_is_explained() -> None:
    text = "".join((ROOT / page).read_text(encoding="utf-8") for page in ("CONTRIBUTING.md", "README.md"))
    targets = pages.make_targets((ROOT / "Makefile").read_text(encoding="utf-8"))
    assert targets
    assert [target for target in targets if f"make {target}`" not in text] == []


def test_every_relative_link_leads_somewhere() -> None:
    dead = [
        f"{repository.name(page)}: {link}"
        for page in PAGES
        if page.parent != report.RESULTS  # the links of these are those of the pages made from them
        for link in pages.relative_links(page.read_text(encoding="utf-8"))
        if not (page.parent / link).exists()
    ]
    assert not dead, "\n".join(dead)


def test_every_page_is_in_the_index() -> None:
    index = DOCS / "index.md"
    listed = {(DOCS / link).resolve() for link in pages.relative_links(index.read_text(encoding="utf-8"))}
    shown = {page for page in repository.files("docs/*.md") if page not in RECORDS and page != index}
    assert {repository.name(page) for page in shown - listed} == set()


def test_every_code_block_is_valid_in_its_language() -> None:
    assert not repository.report(PAGES, pages.broken_blocks)


def test_every_decision_record_has_its_parts() -> None:
    assert not repository.report(RECORDS, pages.missing_headings)


def test_every_decision_record_is_numbered_and_in_the_index() -> None:
    index = pages.relative_links((DOCS / "decisions" / "README.md").read_text(encoding="utf-8"))
    assert [record.name for record in RECORDS if record.name not in index] == []
    assert [record.name for record in RECORDS if not re.match(r"\d{4}-[a-z0-9-]+\.md$", record.name)] == []


def test_every_module_on_the_way_of_a_message_exists() -> None:
    page = (DOCS / "explanation" / "message.md").read_text(encoding="utf-8")
    named = set(re.findall(r"(?<![\w/])(?:engine|prompt|cli|client|domain|storage)/[a-z_/]+\.py\b", page))
    assert len(named) > 15
    assert [path for path in sorted(named) if not (ROOT / "src" / "contextinfinity" / path).exists()] == []


def test_every_requirement_is_stated_once() -> None:
    stated = pages.requirements((DOCS / "requirements.md").read_text(encoding="utf-8"))
    assert stated
    assert sorted(set(stated)) == sorted(stated)


def test_every_requirement_that_a_test_names_is_stated() -> None:
    stated = pages.requirements((DOCS / "requirements.md").read_text(encoding="utf-8"))

    def unknown(source: str) -> list[str]:
        return [
            f" {name} is not in docs/requirements.md" for name in rules.requirement_ids(source) if name not in stated
        ]

    assert not repository.report(repository.files("tests/*.py", "testing/*.py"), unknown)


def test_the_page_of_models_names_every_vendor_with_its_key_and_address() -> None:
    page = (DOCS / "reference" / "models.md").read_text(encoding="utf-8")
    rows = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `")}
    assert rows.keys() >= {*get_args(ProviderName)}
    for name, vendor in VENDORS.items():
        assert vendor.auth.key_env in rows[name]
        assert vendor.auth.hosts is not None or vendor.base_url in rows[name]


# The readers themselves, on pages made to break the rules.


def test_a_drawn_tree_is_read_with_its_depths() -> None:
    drawing = "A tree.\n\n    Root\n    ├── Left    words\n    │   └── Leaf\n    └── Right   More words\n\nProse."
    assert pages.drawn_parents(drawing) == {"Root": "", "Left": "Root", "Leaf": "Left", "Right": "Root"}


def test_an_error_more_changes_tree_and_page() -> None:
    class Unheard(errors.NotFound):
        """New."""

        code = "unheard"

    kinds: list[pages.ErrorType] = [*ERRORS, Unheard]
    assert pages.parents(kinds)["Unheard"] == "NotFound"
    assert pages.errors_page(kinds).endswith("| `unheard` | `Unheard` | NotFound | New. |  |\n")


def test_relative_links_are_told_from_others() -> None:
    inline = "[a](b.md#part) ![c](d.png 'title') [e](https://x.org) [f](#here) `[g](h.md)`"
    page = f"{inline}\n\n[i]: j.md\n```\n[k](l.md)\n```\n"
    assert pages.relative_links(page) == ["b.md", "d.png", "j.md"]


def test_a_code_block_without_a_language_or_with_an_error_is_seen() -> None:
    fence = "```"
    blocks = ("", "cix"), ("py", "def ("), ("json", "{"), ("toml", "[general]\ndefault_modell = 1"), ("toml", "[tool]")
    page = "\n".join(f"{fence}{language}\n{text}\n{fence}" for language, text in blocks)
    assert [line.split(":")[0].strip() for line in pages.broken_blocks(page)] == [
        "a block of the language ''",
        "py",
        "json",
        "toml",
    ]


@pytest.mark.parametrize("page", ["# A\n", "## Context\n## Decision\n## Consequences\n", "```\n## Context\n```\n"])
def test_a_record_without_its_parts_is_seen(page: str) -> None:
    assert list(pages.missing_headings(page))


def test_a_whole_record_is_fine() -> None:
    page = "# T\n\n" + "\n".join(f"## {heading}\nwords\n" for heading in pages.DECISION_HEADINGS)
    assert not list(pages.missing_headings(page))


def test_documented_make_targets_are_found() -> None:
    assert pages.make_targets("a: b ## does\nc-d: ## does too\nhidden: x\n\tcmd ## no\n") == ["a", "c-d"]


def test_requirement_marks_are_found() -> None:
    marks = "pytestmark = pytest.mark.req('A-1')\n@pytest.mark.req('B-2', 'C-3')\ndef test(): ..."
    source = f"import pytest\n{marks}\nreq('D-4')"
    assert rules.requirement_ids(source) == ["A-1", "B-2", "C-3"]
    assert pages.requirements("- **A-1** Holds.\n- **B-2**\n- C-3 Holds.\n") == ["A-1"]
