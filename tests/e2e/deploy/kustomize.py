"""What `kubectl kustomize DIRECTORY` prints, for as much of kustomize as deploy/ uses.

So the manifests are tested where there is no kubectl; where there is one, test_kustomize.py compares the two.

Rule: a key that is not known here is an error, never left out.
"""

import copy
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

Object = dict[str, Any]

_KEYS = {
    "apiVersion", "kind", "resources", "components", "labels", "configMapGenerator", "generatorOptions", "patches",
    "images",
}  # fmt: skip

_MERGED_BY = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "ports": "containerPort",
}
"""Lists whose items a strategic merge patch finds by a key; all others are replaced."""

_HASHED = "internal/needs-hash"


def kustomize(directory: Path) -> list[Object]:
    """Return the objects that the kustomization in the directory renders."""
    objects = _accumulate(directory, [])
    renamed = {}
    for one in objects:
        if one.pop(_HASHED, False):
            name = one["metadata"]["name"]
            renamed[name] = one["metadata"]["name"] = f"{name}-{_hash(one['data'])}"
    for one in objects:
        for volume in _pod_spec(one).get("volumes", ()):
            if "configMap" in volume:
                volume["configMap"]["name"] = renamed.get(volume["configMap"]["name"], volume["configMap"]["name"])
    return objects


def _accumulate(directory: Path, objects: list[Object]) -> list[Object]:
    """Add what the kustomization makes to the objects, and change them as it says."""
    file = yaml.safe_load((directory / "kustomization.yaml").read_text(encoding="utf-8"))
    assert file.keys() <= _KEYS, f"{directory}: {file.keys() - _KEYS}"
    for name in file.get("resources", ()):
        path = directory / name
        objects += _accumulate(path, []) if path.is_dir() else _documents(path.read_text(encoding="utf-8"))
    for name in file.get("components", ()):
        objects = _accumulate(directory / name, objects)
    for generator in file.get("configMapGenerator", ()):
        _generate(objects, directory, generator, file.get("generatorOptions", {}))
    for patch in file.get("patches", ()):
        text = patch["patch"] if "patch" in patch else (directory / patch["path"]).read_text(encoding="utf-8")
        objects = _patched(objects, yaml.safe_load(text), patch.get("target"))
    for labels in file.get("labels", ()):
        assert labels.keys() == {"pairs"}
        for one in objects:
            one["metadata"].setdefault("labels", {}).update(labels["pairs"])
    for image in file.get("images", ()):
        for one in objects:
            for container in (*_pod_spec(one).get("containers", ()), *_pod_spec(one).get("initContainers", ())):
                container["image"] = _image(container["image"], image)
    keys = [
        (one["apiVersion"], one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in objects
    ]
    assert len(keys) == len(set(keys)), f"{directory}: something is there twice"
    return objects


def _documents(text: str) -> list[Object]:
    return [one for one in yaml.safe_load_all(text) if one]


def _pod_spec(one: Object) -> Object:
    spec: Object = (
        one.get("spec", {}) if one["kind"] == "Pod" else one.get("spec", {}).get("template", {}).get("spec", {})
    )
    return spec


def _image(image: str, change: Object) -> str:
    assert change.keys() <= {"name", "newName", "newTag"}
    name, _, tag = image.rpartition(":")
    return f"{change.get('newName', name)}:{change.get('newTag', tag)}" if name == change["name"] else image


# --- ConfigMaps -----------------------------------------------------------------------------------------------------


def _generate(objects: list[Object], directory: Path, generator: Object, options: Object) -> None:
    assert generator.keys() <= {"name", "namespace", "files", "behavior", "options"}
    options = options | generator.get("options", {})
    assert options.keys() <= {"disableNameSuffixHash", "labels"}
    metadata = {"name": generator["name"], "namespace": generator["namespace"]}
    data = {name: (directory / name).read_text(encoding="utf-8") for name in generator["files"]}
    if generator.get("behavior") == "replace":
        (there,) = [
            one for one in objects if one["kind"] == "ConfigMap" and one["metadata"].items() >= metadata.items()
        ]
        there["data"] = data
    else:
        assert "behavior" not in generator
        made: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        if "labels" in options:
            made["metadata"]["labels"] = dict(options["labels"])
        if not options.get("disableNameSuffixHash"):
            made[_HASHED] = True
        objects.append(made)


def _hash(data: Object) -> str:
    """kustomize's hash of a ConfigMap: ten characters, none of which makes a word. The name in it is always empty."""
    hashed = {"data": data, "kind": "ConfigMap", "name": ""}
    plain = json.dumps(hashed, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&":
        plain = plain.replace(character, f"\\u{ord(character):04x}")
    return hashlib.sha256(plain.encode()).hexdigest()[:10].translate(str.maketrans("013ae", "ghkmt"))


# --- patches --------------------------------------------------------------------------------------------------------


def _patched(objects: list[Object], patch: Any, target: Object | None) -> list[Object]:
    if isinstance(patch, list):
        assert target is not None
        wanted = [one for one in objects if _is(one, target)]
        assert wanted, f"nothing to patch: {target}"
        for one in wanted:
            for step in patch:
                _step(one, step)
        return objects
    key = {"kind": patch["kind"], "name": patch["metadata"]["name"]}
    (one,) = [one for one in objects if _is(one, target or key)]
    if patch.get("$patch") == "delete":
        return [other for other in objects if other is not one]
    _merge(one, patch)
    return objects


def _is(one: Object, target: Object) -> bool:
    assert target.keys() <= {"kind", "name"}
    return one["kind"] == target["kind"] and target.get("name") in (None, one["metadata"]["name"])


def _merge(there: Object, patch: Object) -> None:
    """A strategic merge patch."""
    for key, value in patch.items():
        if value is None:
            there.pop(key, None)
        elif isinstance(value, dict) and isinstance(there.get(key), dict):
            _merge(there[key], value)
        elif isinstance(value, list) and key in _MERGED_BY:
            there[key] = list(_merged(there.get(key, []), value, _MERGED_BY[key]))
        else:
            there[key] = copy.deepcopy(value)


def _merged(there: list[Object], patches: list[Object], key: str) -> Iterator[Object]:
    """New items come first, as kustomize has them."""
    known = {one[key] for one in there}
    yield from (copy.deepcopy(patch) for patch in patches if patch[key] not in known)
    of = {patch[key]: patch for patch in patches}
    for one in there:
        patch = of.get(one[key], {})
        if patch.get("$patch") != "delete":
            _merge(one, patch)
            yield one


def _step(document: Object, step: Object) -> None:
    """One operation of a JSON patch (RFC 6902)."""
    match step:
        case {"op": "move", "from": source, "path": path}:
            _put(document, path, _take(document, source))
        case {"op": "add" | "replace" as operation, "path": path, "value": value}:
            if operation == "replace":
                _take(document, path)
            _put(document, path, copy.deepcopy(value))
        case {"op": "remove", "path": path}:
            _take(document, path)
        case _:
            raise AssertionError(step)


def _parent(document: Object, path: str) -> tuple[Any, Any]:
    """What the path's last part is in, and that part as key or place."""
    *parts, last = [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]
    inner: Any = document
    for part in parts:
        inner = inner[int(part) if isinstance(inner, list) else part]
    return inner, int(last) if isinstance(inner, list) else last


def _take(document: Object, path: str) -> Any:
    inner, last = _parent(document, path)
    return inner.pop(last)


def _put(document: Object, path: str, value: Any) -> None:
    inner, last = _parent(document, path)
    if isinstance(inner, list):
        inner.insert(last, value)
    else:
        inner[last] = value
