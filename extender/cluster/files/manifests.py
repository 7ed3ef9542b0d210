"""Load a cluster from manifests, such as the output of `kubectl get nodes,pods,pdb,… -A -o json`.

The input is JSON or YAML, plain or gzipped: one List, one object, several documents in a file, or a directory of such
files. Kinds that no decision reads are counted and skipped. Hand-written YAML gets two defaults: the namespace
`default`, and the UID `namespace/name` for a pod.

Rule: an object is loaded completely or the load fails with a message that names file, object and field. An incomplete
cluster would evict the wrong pod.
"""

import codecs
import gzip
import json
import os
import re
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import msgspec
import yaml

from extender.errors import ClusterFileError
from extender.k8s.kinds import KINDS, ClusterObjects, Kind, kind_without_group
from extender.k8s.objects import Labels, Object, Pod
from extender.k8s.validation import decode_error_message, validate

UNREAD_ANNOTATION = "extender/unreadable"
"""Annotation of a dumped List: fields of ClusterObjects that could not be read, comma-separated."""

MANIFEST_SUFFIXES = (".json", ".yaml", ".yml", ".json.gz", ".yaml.gz", ".yml.gz")
"""Suffixes of the files of a directory that are loaded."""

ManifestSource = str | os.PathLike[str] | Mapping[str, Any] | ClusterObjects


@dataclass(frozen=True, slots=True)
class LoadReport:
    """The result of a load: the objects, and the kinds that were skipped."""

    objects: ClusterObjects
    skipped_kinds: Mapping[str, int] = field(default_factory=dict)
    """Kind -> number of skipped objects, which no decision reads."""


def load_cluster(source: ManifestSource) -> ClusterObjects:
    """Return the objects of a file, a directory or a parsed List; raise ClusterFileError if any of it is wrong."""
    return read_cluster(source).objects


def read_cluster(source: ManifestSource) -> LoadReport:
    """Return the objects and the counts of skipped kinds; ClusterFileError if any of the input is wrong."""
    if isinstance(source, ClusterObjects):
        return LoadReport(source)
    collector = _Collector()
    if isinstance(source, Mapping):
        collector.add(source, "cluster")
        return collector.report()
    for path in cluster_files(Path(source)):
        for number, document in enumerate(_documents(path), start=1):
            collector.add(document, path.name, place=f"document {number}")
    return collector.report()


def example_cluster() -> ClusterObjects:
    """Return the example cluster that ships with the package (12 nodes)."""
    with resources.as_file(resources.files("extender.cluster.files") / "example.yaml") as path:
        return load_cluster(path)


def cluster_files(path: Path) -> list[Path]:
    """Return the file itself, or the files of a directory with a known suffix, sorted by name."""
    try:
        if not path.is_dir():
            return [path]
        found = sorted(f for f in path.iterdir() if f.name.endswith(MANIFEST_SUFFIXES) and not f.name.startswith("."))
    except OSError as error:
        raise ClusterFileError(f"{path}: {error.strerror}") from error
    if not found:
        raise ClusterFileError(f"{path}: no file in this directory ends in {', '.join(MANIFEST_SUFFIXES)}")
    return found


# --- bytes to documents ---------------------------------------------------------------------------------------------


def _documents(path: Path) -> list[Any]:
    """Return the documents of a file: `Raw` for JSON, plain Python values for YAML."""
    try:
        data = _decompress(path.read_bytes())
        found = _parse(data, is_yaml=path.name.removesuffix(".gz").endswith((".yaml", ".yml")))
    except (OSError, EOFError, zlib.error) as error:
        raise ClusterFileError(f"{path.name}: {getattr(error, 'strerror', None) or error}") from error
    except yaml.YAMLError as error:
        raise ClusterFileError(f"{path.name}: not YAML: {_yaml_problem(error)}") from error
    except RecursionError as error:
        raise ClusterFileError(f"{path.name}: nested too deeply") from error
    except ValueError as error:
        raise ClusterFileError(f"{path.name}: not JSON: {error}") from error
    if not found:
        raise ClusterFileError(f"{path.name}: the file is empty")
    return found


def _decompress(data: bytes) -> bytes:
    """Decode gzip, a byte order mark, and UTF-16 (which `>` in PowerShell writes)."""
    if data.startswith(b"\x1f\x8b"):
        data = gzip.decompress(data)
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16").encode()
    return data.removeprefix(codecs.BOM_UTF8)


def _parse(data: bytes, is_yaml: bool) -> list[Any]:
    """Parse JSON with the fast decoder even in a .yaml file; flow-style YAML (`{a: b}`) is left to the YAML parser."""
    if data[:64].lstrip()[:1] in (b"{", b"["):
        try:
            return _json_documents(data)
        except ValueError:
            if not is_yaml:
                raise
    return [d for d in yaml.load_all(data, Loader=_Loader) if d is not None]


def _json_documents(data: bytes) -> list[Any]:
    """Return the values of concatenated JSON (`{…} {…}`); a single value is not scanned twice."""
    try:
        return [msgspec.json.decode(data, type=msgspec.Raw)]
    except msgspec.DecodeError as error:
        if "trailing characters" not in str(error):
            raise
    text, position, found = data.decode(), 0, []
    skip, scan = re.compile(r"\s*"), json.JSONDecoder().raw_decode
    while (position := skip.match(text, position).end()) < len(text):  # type: ignore[union-attr]
        _, end = scan(text, position)
        found.append(msgspec.Raw(text[position:end].encode()))
        position = end
    return found


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML loader that resolves only null, true, false and decimal integers; every other scalar stays a string.

    Timestamps are strings in the API; `0.5` must stay exact, as a quantity is decimal, not binary; and YAML 1.1's `on`,
    `no` and `0x1` are not numbers or booleans in Kubernetes manifests.
    """

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

    def construct_document(self, node: yaml.Node) -> Any:
        self.deep_construct = True  # so that a recursive alias is an error
        return super().construct_document(node)


_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|false|False)$"), list("tTfF"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^[-+]?(?:0|[1-9][0-9]*)$"), list("-+0123456789"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:merge", re.compile(r"^<<$"), ["<"])


def _yaml_problem(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    return f"{problem} at line {mark.line + 1}" if mark else problem


# --- documents to objects -------------------------------------------------------------------------------------------


class _TypeMeta(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""


class _ListMetadata(msgspec.Struct):
    annotations: Labels | None = None


class _Items(msgspec.Struct):
    items: list[msgspec.Raw] | None = None
    metadata: _ListMetadata | None = None


class _AnyItems(msgspec.Struct):
    items: list[Any] | None = None
    metadata: _ListMetadata | None = None


class _NameOnly(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _MetadataOnly(msgspec.Struct):
    metadata: _NameOnly


_KINDS_BY_NAME: dict[str, dict[str, str]] = {}
"""`kind` field of objects -> API group -> key of KINDS."""
for _kind, _of_kind in KINDS.items():
    _KINDS_BY_NAME.setdefault(kind_without_group(_kind), {})[_of_kind.group] = _kind


class _Collector:
    """Collect objects from documents; reject duplicates."""

    def __init__(self) -> None:
        self._found: dict[str, list[Object]] = {kind.field: [] for kind in KINDS.values()}
        self._defined_in: dict[tuple[str, str, str], str] = {}
        self._pod_by_uid: dict[str, str] = {}
        self._skipped: Counter[str] = Counter()
        self._unread: set[str] = set()

    def report(self) -> LoadReport:
        found: dict[str, Any] = {field: tuple(objects) for field, objects in self._found.items()}
        return LoadReport(ClusterObjects(**found, unreadable_tables=tuple(sorted(self._unread))), dict(self._skipped))

    def add(self, document: Any, file: str, default: _TypeMeta | None = None, place: str = "the document") -> None:
        """Add one object or all items of a List; `default` is the item type that a typed list (NodeList) implies."""
        head = _read(document, _TypeMeta, f"{file}: {place}")
        name = head.kind or (default.kind if default else "")
        if not name:
            raise ClusterFileError(f"{file}: {place} has no kind")
        if name.endswith("List"):
            inner = _TypeMeta(name.removesuffix("List"), head.api_version)
            struct: type[_Items | _AnyItems] = _Items if isinstance(document, msgspec.Raw) else _AnyItems
            listed = _read(document, struct, f"{file}: {name}")
            noted = ((listed.metadata.annotations if listed.metadata else None) or {}).get(UNREAD_ANNOTATION, "")
            self._unread.update(
                field for field in noted.split(",") if field in self._found
            )  # of a newer version: ignored
            for index, item in enumerate(listed.items or ()):
                self.add(item, file, inner, place=f"item {index}")
            return
        version = head.api_version or (default.api_version if default else "")
        try:
            kind = _kind_of(name, version)
        except ValueError as error:
            raise ClusterFileError(f"{file}: {name} {_name_of(document) or f'({place})'}: {error}") from error
        if kind is None:
            self._skipped[f"{name}.{version.rpartition('/')[0]}" if name in _KINDS_BY_NAME else name] += 1
        else:
            self._add_object(kind, document, file, place)

    def _add_object(self, kind: str, document: Any, file: str, place: str) -> None:
        try:
            loaded = _with_defaults(_decode(document, KINDS[kind].type), KINDS[kind])
            validate(loaded)
            self._check_unique(kind, loaded, file)
        except ValueError as error:
            raise ClusterFileError(
                f"{file}: {kind} {_name_of(document) or f'({place})'}: {decode_error_message(error)}"
            ) from error
        self._found[KINDS[kind].field].append(loaded)

    def _check_unique(self, kind: str, loaded: Object, file: str) -> None:
        """Raise ValueError if the object has no name, or if its name or a pod's UID is a duplicate."""
        metadata = loaded.metadata
        if not metadata.name:
            raise ValueError("metadata.name is missing")
        key = (kind, metadata.namespace, metadata.name)
        if key in self._defined_in:
            raise ValueError(f"is a duplicate, first defined in {self._defined_in[key]}")
        self._defined_in[key] = file
        if isinstance(loaded, Pod) and (other := self._pod_by_uid.setdefault(metadata.uid, loaded.key)) != loaded.key:
            raise ValueError(f"has the same uid as Pod {other}")


def _kind_of(name: str, api_version: str) -> str | None:
    """Return the key of KINDS, or None if no decision reads the kind; ValueError if it is ambiguous without version."""
    kinds = _KINDS_BY_NAME.get(name, {})
    group, slash, _ = api_version.rpartition("/")
    if slash or not kinds:
        return kinds.get(group)
    if len(kinds) > 1:
        versions = " or ".join(KINDS[kind].api_version for kind in kinds.values())
        raise ValueError(f"apiVersion is missing: {versions}")
    return next(iter(kinds.values()))


def _with_defaults(loaded: Any, kind: Kind) -> Any:
    """Fill in the fields that the API server would have set: the namespace, and a UID for a pod."""
    metadata = loaded.metadata
    if kind.namespaced and not metadata.namespace:
        metadata = msgspec.structs.replace(metadata, namespace="default")
    if isinstance(loaded, Pod) and not metadata.uid:
        metadata = msgspec.structs.replace(metadata, uid=f"{metadata.namespace}/{metadata.name}")
    return loaded if metadata is loaded.metadata else msgspec.structs.replace(loaded, metadata=metadata)


T = TypeVar("T")


def _read(document: Any, struct: type[T], label: str) -> T:
    try:
        return _decode(document, struct)
    except ValueError as error:
        raise ClusterFileError(f"{label}: {decode_error_message(error)}") from error


def _decode(document: Any, struct: type[T]) -> T:
    """Decode JSON or convert parsed YAML; ValueError (the base of msgspec's and UTF-8 errors) if it does not fit."""
    try:
        if isinstance(document, msgspec.Raw):
            return msgspec.json.decode(document, type=struct)
        return msgspec.convert(document, struct)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _name_of(document: Any) -> str:
    """Return `namespace/name` of an object that cannot be decoded, or "" if they cannot be read either."""
    try:
        name = _decode(document, _MetadataOnly).metadata
    except ValueError:
        return ""
    return f"{name.namespace}/{name.name}" if name.namespace and name.name else name.name
