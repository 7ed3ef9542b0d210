"""The corpora follow a judge. A program stands for it here: it answers from a file what a kube-scheduler would say."""

import json
import shutil
from pathlib import Path

import pytest

from tests.parity.agreement import CATEGORIES_OF_1_37, CORPUS, EVERY_CATEGORY, lines_of, load
from tests.parity.changes import is_chance
from tests.parity.judged import BASE_MINOR, GATES, base_minor, patches, write_patches
from tests.parity.other_minors import OtherMinors, encoded, verdict_of, write_lines
from tests.parity.update import main
from tests.parity.versions import VERSIONED, minors_of, names_of, verdicts

CATEGORY = "wide/quirks"
OTHERS = "versions/quirks"
JUDGE = """\
#!/usr/bin/env python3
import json, pathlib, sys
beside = pathlib.Path(__file__)
if "-version" in sys.argv:
    sys.exit(print(beside.name.removeprefix("judge-")))
says, often = json.loads(beside.with_name("verdicts.json").read_text())
asked = set()
(gates,) = [one.removeprefix("-feature-gates=") for one in sys.argv if one.startswith("-feature-gates=")]
for scenario in map(json.loads, sys.stdin):
    name = scenario["id"] + gates
    verdict = often.get(name, says[name]) if name in asked else says[name]  # drawn otherwise the second time
    asked.add(name)
    print(json.dumps({"id": scenario["id"], "category": "", **verdict}))
"""


class Room:
    """A copy of one category, and judges that say of each scenario what the copy says, unless told otherwise."""

    def __init__(self, folder: Path) -> None:
        self.corpus = folder / "corpus"
        for name in (CATEGORY, OTHERS, GATES):
            file = self.corpus / f"{name}.jsonl.gz"
            file.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(CORPUS / f"{name}.jsonl.gz", file)
        shutil.copy(CORPUS / "judged.json", self.corpus)
        self.folder = folder
        self.said = {one["id"]: verdict_of(one) for one in self.lines(CATEGORY)}
        self.often: dict[str, dict[str, object]] = {}

    def lines(self, name):
        return [json.loads(line) for line in lines_of(self.corpus / f"{name}.jsonl.gz")]

    def files(self):
        return {path: path.read_bytes() for path in self.corpus.rglob("*.gz")}

    def update(self, patch, category=CATEGORY):
        judge = self.folder / f"judge-{patch}"
        judge.write_text(JUDGE)
        judge.chmod(0o755)
        (self.folder / "verdicts.json").write_text(json.dumps([self.said, self.often]))
        main(["--judge", str(judge), "--corpus", str(self.corpus), "--category", category])

    def said_by(self, minor):
        """Scenario -> the verdict that the corpus has of the minor."""
        others = OtherMinors.of(CATEGORY, self.corpus)
        bases = {one["id"]: verdict_of(one) for one in self.lines(CATEGORY)}
        return {
            name: base if minor == BASE_MINOR else others.verdicts(name, base)[minor] for name, base in bases.items()
        }


@pytest.fixture
def room(tmp_path):
    return Room(tmp_path)


def test_the_same_verdicts_of_a_later_patch_change_no_file_but_the_name_of_the_patch(room, capsys):
    before = room.files()
    room.update("1.36.99")
    assert room.files() == before
    assert patches(room.corpus)[CATEGORY][BASE_MINOR] == "1.36.99"
    assert f"{CATEGORY}: 0 of {len(room.said)} changed" in capsys.readouterr().out


def test_notes_of_the_judge_change_no_file(room):
    before, name = room.files(), next(iter(room.said))
    room.said[name] = {"expected": room.said[name]["expected"] | {"clock": ["n1"]}}
    room.update("1.36.99")
    assert room.files() == before


def test_what_differs_by_chance_is_counted_and_the_verdict_before_it_stays(room, capsys):
    before, name = room.files(), next(iter(room.said))
    room.said[name] = {"expected": room.said[name]["expected"] | {"feasible": 77, "unsettled": ["filter"]}}
    room.update("1.36.99")
    assert room.files() == before
    assert "1 kept, which differ by chance" in capsys.readouterr().out


def test_a_verdict_that_is_among_the_answers_of_a_minor_that_draws_stays(room, capsys):
    lines = room.lines(CATEGORY)
    lines[0]["cluster"]["items"].append({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice"})
    write_lines(room.corpus / f"{CATEGORY}.jsonl.gz", map(encoded, lines))
    name, stored = lines[0]["id"], room.said
    room.update("1.35.0")
    room.said = stored | {name: {"expected": stored[name]["expected"] | {"feasible": 77}}}
    room.often = {name: stored[name]}
    before = room.files()
    room.update("1.35.99")
    assert room.files() == before
    assert "1 kept, which differ by chance" in capsys.readouterr().out
    room.often = {}
    room.update("1.35.99")
    assert room.said_by(35) == room.said


def test_what_the_base_minor_says_otherwise_is_written_and_the_other_minors_keep_their_verdicts(room, capsys):
    before, name = {minor: room.said_by(minor) for minor in (33, BASE_MINOR)}, next(iter(room.said))
    changed = {"expected": room.said[name]["expected"] | {"feasible": 77}}
    room.said[name] = changed
    room.update("1.36.99")
    assert room.said_by(BASE_MINOR) == before[BASE_MINOR] | {name: changed}
    assert room.said_by(33) == before[33]
    assert f"{name}: feasible: " in capsys.readouterr().out
    assert [one | {"expected": {}} for one in room.lines(CATEGORY)] == [
        one | {"expected": {}} for one in load(CATEGORY)
    ]


def test_another_minor_has_a_line_where_it_says_otherwise_and_shares_it(room):
    before = room.said_by(33)
    first, second = [*room.said][:2]
    for name in (first, second):
        room.said[name] = {"expected": room.said[name]["expected"] | {"feasible": 77}}
    room.update("1.38.0")
    room.update("1.39.0")
    assert room.said_by(38) == room.said_by(39) == room.said
    lines = [one for one in room.lines(OTHERS) if one["minors"][-1] == 39]
    assert {one["id"]: one["minors"] for one in lines} == {first: [38, 39], second: [38, 39]}
    room.said |= {first: room.said_by(BASE_MINOR)[first]}
    room.update("1.38.1")
    assert {one["id"]: one["minors"] for one in room.lines(OTHERS) if 39 in one["minors"]} == {
        first: [39],
        second: [38, 39],
    }
    assert room.said_by(33) == before


def test_a_configuration_that_a_minor_refuses_is_its_verdict(room):
    name, refused = next(iter(room.said)), {"error": "initializing profiles: no such plugin"}
    room.said[name] = refused
    room.update("1.38.0")
    assert room.said_by(38)[name] == refused
    room.said[name] = {"error": "no verdict within a minute"}
    with pytest.raises(SystemExit, match=f"error: {CATEGORY}: {name}: no verdict"):
        room.update("1.38.1")


def test_in_the_folder_of_a_minor_its_verdicts_stand_in_the_scenarios_also_those_that_are_a_refusal(room):
    category = "v1.37/quirks37"
    file = room.corpus / f"{category}.jsonl.gz"
    file.parent.mkdir()
    shutil.copy(CORPUS / f"{category}.jsonl.gz", file)
    before = room.lines(category)
    (first, second, *_), room.said = before, {one["id"]: verdict_of(one) for one in before}
    refused, changed = {"error": "config: no such key"}, {"expected": second["expected"] | {"feasible": 77}}
    room.said |= {first["id"]: refused, second["id"]: changed}
    room.update("1.37.99", category)
    after = room.lines(category)
    assert [verdict_of(one) for one in after] == [refused, changed, *map(verdict_of, before[2:])]
    assert [one["why"] for one in after] == [one["why"] for one in before]
    assert not (room.corpus / "versions" / "quirks37.jsonl.gz").exists()
    room.update("1.38.0", category)
    assert room.lines(category) == after


@pytest.mark.parametrize("patch", ["1.36.99", "1.38.0"])
def test_a_scenario_at_which_kube_scheduler_panics_leaves_the_corpus_and_is_not_named(room, patch, capsys):
    told = {one["id"] for one in room.lines(OTHERS)}
    name = next(name for name in room.said if name in told)
    room.said[name] = {"expected": room.said[name]["expected"] | {"crash": "out of range"}}
    room.update(patch)
    assert name not in {one["id"] for file in (CATEGORY, OTHERS) for one in room.lines(file)}
    printed = capsys.readouterr().out
    assert "1 removed, at which kube-scheduler panics" in printed
    assert name not in printed


def test_gates_are_given_to_the_judge_and_other_minors_keep_their_lines(room):
    lines = room.lines(GATES)
    given = [",".join(f"{name}={str(value).lower()}" for name, value in one["gates"].items()) for one in lines]
    counted = [one | {"expected": one["expected"] | {"feasible": row}} for row, one in enumerate(lines)]
    rows = zip(counted, given, strict=True)
    room.said = {one["id"] + gates: verdict_of(one) for one, gates in rows if one["minor"] == 33}
    room.update("1.33.99", GATES)
    assert room.lines(GATES) == [
        new if new["minor"] == 33 and not is_chance(old, {}) else old for new, old in zip(counted, lines, strict=True)
    ]


def test_an_older_patch_is_refused(room):
    found = patches(room.corpus)
    found[CATEGORY][BASE_MINOR] = "1.36.10"
    write_patches(found, room.corpus)
    before = room.files()
    with pytest.raises(SystemExit, match=r"error: the verdicts of wide/quirks are of 1\.36\.10: 1\.36\.9 is older"):
        room.update("1.36.9")
    assert (room.files(), patches(room.corpus)) == (before, found)


def test_every_category_names_one_patch_of_each_minor_that_judged_it():
    found = patches()
    assert list(found) == [*EVERY_CATEGORY, *CATEGORIES_OF_1_37, GATES]
    assert all(base_minor(category) in by_minor for category, by_minor in found.items())
    for category in VERSIONED:
        names = {*names_of(category)}
        assert {minor for name, minor in verdicts(category) if name in names} <= {*minors_of(category)}
    assert {one["minor"] for one in load(GATES)} == {*found[GATES]}
