"""The Intervention Catalog: which knobs an experiment may change, and to what.

Rules kept here:

- a catalog is frozen and has a digest over its whole canonical content; a change of any word is another catalog;
- a knob's value is one of its allowed values and of its declared type; a boolean never stands in for a number,
  NaN and infinities are refused;
- a run configuration names every knob and every fixed setting; fixed settings cannot be changed;
- an intervention changes exactly one knob between two configurations.

Pure: the only thing read is the YAML that ships beside this module.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr, model_validator
from pydantic import ValidationError as PydanticError

from records.canonical import canonical_bytes, domain_digest, normalise
from records.decisions import AllowedAction
from records.errors import InvalidInputError, NotFoundError
from records.values import Knob as RecordedKnob

KnobValue = StrictBool | StrictInt | StrictFloat | StrictStr
Config = dict[str, KnobValue]

_CATALOGS: Final = Path(__file__).parent / "catalogs"
_FROZEN: Final = ConfigDict(frozen=True, extra="forbid")
_Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$")]


@dataclass(frozen=True)
class Change:
    """One knob moved from one allowed value to another; `mechanism` is the knob's mechanism class."""

    knob: str
    from_value: KnobValue
    to_value: KnobValue
    mechanism: str


class Knob(BaseModel):
    """One setting that an intervention may change.

    Attributes:
        value_type: the type of every value.
        default: the value in the baseline; one of `allowed`.
        allowed: every value that may be used, at least two.
        mechanism: short name of the mechanism class; cards of one class do not add up.
        summary: one sentence for people and for retrieval.
    """

    model_config = _FROZEN

    value_type: Literal["number", "string", "boolean"]
    default: KnobValue
    allowed: Annotated[tuple[KnobValue, ...], Field(min_length=2)]
    mechanism: _Name
    summary: Annotated[str, Field(min_length=1)]

    @model_validator(mode="after")
    def _values_are_of_the_type(self) -> Self:
        for value in (self.default, *self.allowed):
            if not _is_of_type(value, self.value_type):
                raise ValueError(f"value {value!r} is not a finite {self.value_type}")
        if self.default not in self.allowed or len(set(self.allowed)) != len(self.allowed):
            raise ValueError("the default is one of the allowed values, and these are distinct")
        return self

    def accepts(self, value: object) -> bool:
        """Tell whether `value` is of the knob's type and allowed."""
        return _is_of_type(value, self.value_type) and value in self.allowed


class InterventionCatalog(BaseModel):
    """Every knob of one experiment domain, with the baseline and what is held fixed.

    Attributes:
        catalog_id: stable name.
        version: version text; another content needs another version.
        domain: the experiment domain, e.g. `tabular-classification`.
        decision_point: where a decision takes the catalog; always `intervention`.
        max_changes_per_attempt: always one, so that an effect has one cause.
        knobs: name to knob.
        fixed: settings of every run that no intervention may change.
    """

    model_config = _FROZEN

    catalog_id: _Name
    version: Annotated[str, Field(min_length=1)]
    domain: _Name
    decision_point: Literal["intervention"]
    max_changes_per_attempt: Literal[1]
    knobs: Annotated[dict[_Name, Knob], Field(min_length=1)]
    fixed: dict[_Name, KnobValue]

    @model_validator(mode="after")
    def _names_are_distinct(self) -> Self:
        both = self.knobs.keys() & self.fixed.keys()
        if both:
            raise ValueError(f"{sorted(both)} cannot be a knob and fixed")
        canonical_bytes(self.model_dump(mode="json"))
        return self

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the canonical content, in lower-case hex."""
        return domain_digest("intervention-catalog", self.model_dump(mode="json"))

    @property
    def name(self) -> str:
        """The catalog's name with its version, e.g. `tabular-svm-v1`."""
        return f"{self.catalog_id}-v{self.version}"

    @property
    def baseline(self) -> Config:
        """The configuration with every knob at its default."""
        return self.effective_config({})

    @cached_property
    def contrasts(self) -> tuple[Change, ...]:
        """Every registered knob contrast: one knob moved from its default to another allowed value."""
        return tuple(
            Change(name, knob.default, value, knob.mechanism)
            for name, knob in sorted(self.knobs.items())
            for value in knob.allowed
            if value != knob.default
        )

    @cached_property
    def settings(self) -> dict[str, tuple[AllowedAction, ...]]:
        """Every knob with each of its allowed values, in their order, as records hold it."""
        return {
            name: tuple(AllowedAction(knob=name, value=value_text(value)) for value in knob.allowed)
            for name, knob in self.knobs.items()
        }

    def registers(self, knob: RecordedKnob) -> bool:
        """Tell whether a recorded change moves a knob of this catalog between two of its allowed values."""
        texts = {setting.value for setting in self.settings.get(knob.name, ())}
        return {knob.from_value, knob.to_value} <= texts

    def check_change(self, knob: str, value: object) -> None:
        """Refuse a value that `knob` may not take.

        Raises:
            InvalidInputError: the knob is unknown, the type is wrong, or the value is not allowed.
        """
        known = self.knobs.get(knob)
        if known is None:
            raise InvalidInputError("knob", knob, f"Catalog {self.name} has {', '.join(sorted(self.knobs))}.")
        if not known.accepts(value):
            allowed = ", ".join(repr(item) for item in known.allowed)
            raise InvalidInputError(f"knob {knob}", value, f"Give a {known.value_type} among {allowed}.")

    def effective_config(self, changes: Mapping[str, object]) -> Config:
        """Return the full run configuration: fixed settings, defaults, then `changes`, with sorted names.

        A number comes back as the catalog writes it, so that 10 and 10.0 give one configuration.

        Raises:
            InvalidInputError: a change is not allowed.
        """
        config: Config = dict(self.fixed) | {name: knob.default for name, knob in self.knobs.items()}
        for name, value in changes.items():
            self.check_change(name, value)
            config[name] = next(item for item in self.knobs[name].allowed if item == value)
        return dict(sorted(config.items()))

    def config_digest(self, config: Mapping[str, object]) -> str:
        """Return the digest of a full configuration, bound to this catalog.

        The seed is not part of it: paired runs of one arm share the digest.

        Raises:
            InvalidInputError: the configuration lacks a name, has one too many, or breaks a rule.
        """
        projection = {"catalog_digest": self.digest, "config": self._full(config)}
        return domain_digest("effective-config", projection)

    def one_knob_difference(self, config_a: Mapping[str, object], config_b: Mapping[str, object]) -> Change | None:
        """Return the one change that leads from `config_a` to `config_b`, or None for no change or several.

        Raises:
            InvalidInputError: one of them is no full configuration of this catalog.
        """
        before, after = self._full(config_a), self._full(config_b)
        changed = [name for name in before if before[name] != after[name]]
        if len(changed) != self.max_changes_per_attempt:
            return None
        (name,) = changed
        return Change(name, before[name], after[name], self.knobs[name].mechanism)

    def _full(self, config: Mapping[str, object]) -> Config:
        expected = self.knobs.keys() | self.fixed.keys()
        if config.keys() != expected:
            wrong = sorted(config.keys() ^ expected)
            raise InvalidInputError("config", wrong, f"A configuration of {self.name} has exactly the catalog's names.")
        for name, value in self.fixed.items():
            if isinstance(config[name], bool) != isinstance(value, bool) or config[name] != value:
                raise InvalidInputError(f"config {name}", config[name], f"It is fixed at {value!r}.")
        return self.effective_config({name: config[name] for name in self.knobs})


def value_text(value: object) -> str:
    """Return a knob value as the canonical JSON text that records hold."""
    return canonical_bytes(normalise(value)).decode()


@lru_cache
def packaged_catalogs() -> Mapping[str, InterventionCatalog]:
    """Return every catalog that ships with the code, by its digest."""
    catalogs = (load_catalog(path.stem) for path in sorted(_CATALOGS.glob("*.yaml")))
    return {catalog.digest: catalog for catalog in catalogs}


@lru_cache
def load_catalog(name: str) -> InterventionCatalog:
    """Load a shipped catalog by its name with version, e.g. `tabular-svm-v1`.

    Raises:
        NotFoundError: no catalog of that name ships with the code.
        InvalidInputError: the file is not a catalog, or is one of another name.
    """
    known = {path.stem: path for path in _CATALOGS.glob("*.yaml")}
    if name not in known:
        raise NotFoundError("catalog", name, f"Use one of {', '.join(sorted(known))}.")
    catalog = parse_catalog(known[name].read_text(encoding="utf-8"))
    if catalog.name != name:
        raise InvalidInputError(f"catalog {name}", catalog.name, "The file's name is its catalog_id and version.")
    return catalog


def parse_catalog(text: str) -> InterventionCatalog:
    """Read a catalog from YAML text.

    Raises:
        InvalidInputError: the text is not YAML, or not a catalog.
    """
    try:
        content: Any = normalise(yaml.safe_load(text))
        return InterventionCatalog.model_validate(content)
    except (yaml.YAMLError, PydanticError) as error:
        raise InvalidInputError("catalog", str(error), "Write it as the shipped catalogs are written.") from error


def _is_of_type(value: object, value_type: str) -> bool:
    match value:
        case bool():
            return value_type == "boolean"
        case int() | float():
            return value_type == "number" and math.isfinite(value)
        case _:
            return value_type == "string" and isinstance(value, str)
