"""The Intervention Catalog: digests, typed values, one-knob differences."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import policies.catalog as module
from policies.catalog import Change, InterventionCatalog, load_catalog, parse_catalog
from records.errors import InvalidInputError, NotFoundError

FILE = Path(module.__file__).parent / "catalogs" / "tabular-svm-v1.yaml"


@pytest.fixture(scope="module")
def catalog() -> InterventionCatalog:
    return load_catalog("tabular-svm-v1")


def test_digest_is_sha256_of_the_domain_and_the_sorted_json_of_the_file(catalog: InterventionCatalog) -> None:
    content = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    expected = hashlib.sha256(b"vrm/intervention-catalog/v1\0" + text.encode()).hexdigest()
    assert catalog.digest == expected


def test_any_change_of_content_changes_the_digest(catalog: InterventionCatalog) -> None:
    changed = parse_catalog(FILE.read_text(encoding="utf-8").replace("max_iter: 20000", "max_iter: 20001"))
    assert changed.digest != catalog.digest


def test_baseline_is_the_default_of_scikit_learn(catalog: InterventionCatalog) -> None:
    svm = pytest.importorskip("sklearn.svm")
    default = svm.SVC().get_params()
    for name in ("C", "kernel", "gamma", "degree", "coef0", "tol", "shrinking"):
        assert catalog.baseline[name] == default[name]


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        ("C", 2.0),
        ("C", True),
        ("C", "1"),
        ("C", float("nan")),
        ("C", float("inf")),
        ("C", None),
        ("shrinking", 1),
        ("shrinking", "true"),
        ("scaler", "minmax"),
        ("scaler", False),
        ("scaler", ["none"]),
        ("gamma", "auto"),
        ("nosuch", 1),
    ],
)
def test_a_value_that_a_knob_may_not_take_is_refused(catalog: InterventionCatalog, knob: str, value: object) -> None:
    with pytest.raises(InvalidInputError):
        catalog.check_change(knob, value)


@pytest.mark.parametrize(
    ("knob", "value"), [("C", 10), ("C", 10.0), ("C", 0.1), ("shrinking", False), ("kernel", "poly")]
)
def test_an_allowed_value_is_taken(catalog: InterventionCatalog, knob: str, value: object) -> None:
    catalog.check_change(knob, value)
    assert catalog.effective_config({knob: value})[knob] == value


def test_integers_and_floats_of_one_value_are_one_configuration(catalog: InterventionCatalog) -> None:
    one, two = catalog.effective_config({"C": 10}), catalog.effective_config({"C": 10.0})
    assert catalog.config_digest(one) == catalog.config_digest(two)
    assert catalog.config_digest(catalog.baseline | {"C": 10.0}) == catalog.config_digest(one)


def test_config_digest_is_bound_to_catalog_and_content(catalog: InterventionCatalog) -> None:
    projection = {"catalog_digest": catalog.digest, "config": catalog.baseline}
    text = json.dumps(projection, sort_keys=True, separators=(",", ":"))
    assert (
        catalog.config_digest(catalog.baseline)
        == hashlib.sha256(b"vrm/effective-config/v1\0" + text.encode()).hexdigest()
    )


@pytest.mark.parametrize(
    "wrong",
    [{"max_iter": 5}, {"extra": 1}, {"C": True}, {"coef0": False}, {"gamma": "auto"}],
)
def test_a_configuration_that_is_none_of_the_catalog_is_refused(
    catalog: InterventionCatalog, wrong: dict[str, object]
) -> None:
    with pytest.raises(InvalidInputError):
        catalog.config_digest(dict(catalog.baseline) | wrong)


def test_a_configuration_that_lacks_a_name_is_refused(catalog: InterventionCatalog) -> None:
    with pytest.raises(InvalidInputError, match="kernel"):
        catalog.config_digest({name: value for name, value in catalog.baseline.items() if name != "kernel"})


@given(data=st.data())
def test_one_knob_difference_counts_differing_knobs(data: st.DataObject) -> None:
    catalog = load_catalog("tabular-svm-v1")
    arms = st.fixed_dictionaries({name: st.sampled_from(knob.allowed) for name, knob in catalog.knobs.items()})
    one, two = data.draw(arms), data.draw(arms)
    differing = [name for name in one if one[name] != two[name]]
    change = catalog.one_knob_difference(catalog.effective_config(one), catalog.effective_config(two))
    if len(differing) == 1:
        (name,) = differing
        assert change == Change(name, one[name], two[name], catalog.knobs[name].mechanism)
    else:
        assert change is None


def test_contrasts_are_every_single_change_from_the_baseline(catalog: InterventionCatalog) -> None:
    assert len(catalog.contrasts) == sum(len(knob.allowed) - 1 for knob in catalog.knobs.values())
    for contrast in catalog.contrasts:
        changed = catalog.effective_config({contrast.knob: contrast.to_value})
        assert catalog.one_knob_difference(catalog.baseline, changed) == contrast


def test_unknown_catalog_is_named_with_the_known_ones() -> None:
    with pytest.raises(NotFoundError, match="tabular-svm-v1"):
        load_catalog("../secrets")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("default: 1\n", "default: 3\n"),
        ("default: 1\n", "default: true\n"),
        ("allowed: [0.1, 1, 10, 100]", "allowed: [0.1, 1, 1.0]"),
        ("allowed: [0.1, 1, 10, 100]", "allowed: [1]"),
        ("allowed: [0.1, 1, 10, 100]", "allowed: [1, .nan]"),
        ("decision_point: intervention", "decision_point: evaluation"),
        ("max_changes_per_attempt: 1", "max_changes_per_attempt: 2"),
        ("gamma: scale", "C: 1"),
        ("domain: tabular-classification", "domain: tabular-classification\nunknown: 1"),
        ("knobs:", "knobs: ["),
    ],
)
def test_a_damaged_catalog_is_refused(old: str, new: str) -> None:
    text = FILE.read_text(encoding="utf-8")
    assert old in text
    with pytest.raises(InvalidInputError):
        parse_catalog(text.replace(old, new))


def test_a_catalog_cannot_be_changed(catalog: InterventionCatalog) -> None:
    with pytest.raises(ValueError, match="frozen"):
        catalog.version = "2"
