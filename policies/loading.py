"""Policies as versioned files: strict YAML in, a frozen model and its identity out.

Rules kept here:

- a policy is one YAML mapping with `policy_id`, `version` and the numbers of that version; nothing is merged from
  elsewhere and no number has a default, so the file is the whole truth about what tunes behaviour;
- what YAML would let pass in silence is refused: a key given twice, an unknown key, a boolean or a date where a number
  belongs, NaN, infinities;
- the identity is content: same values, same digest, however the file is laid out.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import Annotated, Any, TypeVar, cast

import yaml
from pydantic import ConfigDict, StringConstraints

from records.canonical import canonical_bytes, domain_digest, normalise
from records.errors import InvalidInputError, InvalidRecordError
from records.fields import Name
from records.models import Model, once
from records.values import PolicyIdentity


class PolicyPart(Model):
    """A section of a policy: frozen, strict, finite."""

    model_config = ConfigDict(allow_inf_nan=False)


class Policy(PolicyPart):
    """A whole policy file.

    Attributes:
        policy_id: which policy this is.
        version: the version of its content, a whole number as text; the file is named `<policy_id>-v<version>.yaml`.
    """

    policy_id: Name
    version: Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]*$")]

    def __hash__(self) -> int:
        """Follow from the identity, so that a policy is as cheap a key as a text, however much it declares."""
        return hash(self.identity.digest)

    @once
    def identity(self) -> PolicyIdentity:
        """Name, version and digest of the canonical content."""
        digest = domain_digest("policy", normalise(self.as_json()))
        return PolicyIdentity(policy_id=self.policy_id, version=self.version, digest=digest)


P = TypeVar("P", bound=Policy)
M = TypeVar("M", bound=PolicyPart)


def load_policy(model: type[P], text: str, source: str) -> P:
    """Read a policy from the text of a YAML file, as `load_part` does."""
    return load_part(model, text, source)


def load_part(model: type[M], text: str, source: str) -> M:
    """Read what a YAML file declares, with the strictness of a policy; `source` names the file in errors.

    Raises:
        InvalidInputError: the text is no YAML mapping, or a field is missing, unknown or refused; file, field and
            remedy are named.
    """
    try:
        values = yaml.load(text, Loader=_StrictLoader)  # noqa: S506  # a SafeLoader that also refuses double keys
    except yaml.YAMLError as error:
        raise InvalidInputError(source, " ".join(str(error).split()), "Give one valid YAML mapping.") from error
    if not isinstance(values, dict):
        raise InvalidInputError(source, type(values).__name__, "Give one YAML mapping of policy fields.")
    try:
        return model.load(canonical_bytes(normalise(values)))
    except InvalidRecordError as error:
        raise InvalidInputError(f"{source}: {error.field}", error.value, error.remedy) from error


def packaged_policy(model: type[P], policy_id: str, version: str) -> P:
    """Return a policy that ships with the project, from `policies/files/<policy_id>-v<version>.yaml`.

    It is read once: neither what ships nor a policy ever changes.

    Raises:
        InvalidInputError: there is no such file, it is refused, or it is named for another policy or version.
    """
    return cast("P", _packaged(model, policy_id, version))


@lru_cache(maxsize=64)
def _packaged(model: type[Policy], policy_id: str, version: str) -> Policy:
    name = f"{policy_id}-v{version}.yaml"
    try:
        text = files("policies").joinpath("files", name).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise InvalidInputError("policy", name, "Name a policy and version that ship in policies/files.") from error
    policy = load_policy(model, text, name)
    if (policy.policy_id, policy.version) != (policy_id, version):
        found = f"{policy.policy_id} {policy.version}"
        raise InvalidInputError(f"{name}: policy_id, version", found, "Name the file for what it holds.")
    return policy


def policy_set_digest(identities: Iterable[PolicyIdentity]) -> str:
    """Return the digest of a set of policies, ordered by `policy_id`; the order of the argument does not count.

    Raises:
        InvalidInputError: a policy is named twice, so that it would be open which version rules.
    """
    ordered = sorted(identities, key=lambda identity: identity.policy_id)
    for one, other in pairwise(ordered):
        if one.policy_id == other.policy_id:
            raise InvalidInputError("policy set", one.policy_id, "Give each policy once.")
    return domain_digest("policy-set", [identity.as_json() for identity in ordered])


class _StrictLoader(yaml.SafeLoader):
    """PyYAML keeps the last of two equal keys; here that is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for index, key in enumerate(keys):
            if key in keys[:index]:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is given twice", node.start_mark)
        return super().construct_mapping(node, deep)
