"""Read the picture of a cluster from files, as `kubectl get nodes,pods,pdb,… -A -o json` prints it.

JSON or YAML, plain or gzipped; one List, a single object, several documents one after another, or a directory of such
files. Kinds that no decision reads are counted and left out. Small things that people leave out of hand-written
YAML get a default: a namespace is `default`, a pod's uid is `namespace/name`.

Rule: an object is taken whole or the load fails with a message that names file, object and field. A picture with
a hole in it would evict the wrong pod.
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
from extender.k8s.objects import Labels, Pod, Value
from extender.k8s.validation import decode_error_message, validate

UNREAD_ANNOTATION = "extender/unread"
"""Annotation of a List: the fields of ClusterObjects that could not be read when it was written."""

MANIFEST_SUFFIXES = (".json", ".yaml", ".yml", ".json.gz", ".yaml.gz", ".yml.gz")
"""Which files of a directory are read."""

ManifestSource = str | os.PathLike[str] | Mapping[str, Any] | ClusterObjects


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What a cluster source held."""

    objects: ClusterObjects
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Kind -> how many objects of it no decision reads."""


def load_cluster(source: ManifestSource) -> ClusterObjects:
    """Return the objects of a file, a directory or a parsed List; raise ClusterFileError if any of it is wrong."""
    return read_cluster(source).objects


def read_cluster(source: ManifestSource) -> LoadReport:
    """The same, with the count of what was left out."""
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
    """Return the cluster that ships with the package: 12 nodes, for a first try and for the documentation."""
    with resources.as_file(resources.files("extender.cluster.files") / "example.yaml") as path:
        return load_cluster(path)


def cluster_files(path: Path) -> list[Path]:
    """Return the file itself, or the files of a directory that are read, sorted by name."""
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
    """Undo gzip, a byte order mark, and UTF-16 (what `>` writes in PowerShell)."""
    if data.startswith(b"\x1f\x8b"):
        data = gzip.decompress(data)
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16").encode()
    return data.removeprefix(codecs.BOM_UTF8)


def _parse(data: bytes, is_yaml: bool) -> list[Any]:
    """JSON is read by its own fast path even where the file is called .yaml; `{a: b}` still is YAML."""
    if data[:64].lstrip()[:1] in (b"{", b"["):
        try:
            return _json_documents(data)
        except ValueError:
            if not is_yaml:
                raise
    return [d for d in yaml.load_all(data, Loader=_Loader) if d is not None]


def _json_documents(data: bytes) -> list[Any]:
    """Split `{…} {…}`; only what is more than one value pays for the split."""
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
    """YAML where only null, true, false and decimal integers are not text.

    Timestamps stay text because the API's are text; `0.5` stays text because a quantity is decimal, not binary; and
    `on`, `no` or `0x1` are nobody's priority.
    """

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

    def construct_document(self, node: yaml.Node) -> Any:
        self.deep_construct = True  # so that an alias of what it stands in is an error
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


_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {
    struct: msgspec.json.Decoder(struct)
    for struct in (_TypeMeta, _Items, _MetadataOnly, *(kind.type for kind in KINDS.values()))
}


def _kinds_by_name() -> dict[str, dict[str, str]]:
    """What an object says that it is -> API group -> key of KINDS."""
    found: dict[str, dict[str, str]] = {}
    for kind, of_kind in KINDS.items():
        found.setdefault(kind_without_group(kind), {})[of_kind.group] = kind
    return found


_KINDS_BY_NAME = _kinds_by_name()


class _Collector:
    """Gathers objects from documents and refuses what does not go together."""

    def __init__(self) -> None:
        self._found: dict[str, list[Value]] = {kind.field: [] for kind in KINDS.values()}
        self._first_in: dict[tuple[str, str, str], str] = {}
        self._pod_by_uid: dict[str, str] = {}
        self._left_out: Counter[str] = Counter()
        self._unread: set[str] = set()

    def report(self) -> LoadReport:
        found: dict[str, Any] = {field: tuple(objects) for field, objects in self._found.items()}
        return LoadReport(ClusterObjects(**found, unreadable_tables=tuple(sorted(self._unread))), dict(self._left_out))

    def add(self, document: Any, file: str, default: _TypeMeta | None = None, place: str = "the document") -> None:
        """Take a List apart, or keep one object; `default` is what a typed list (NodeList) says of its items."""
        head = _read(document, _TypeMeta, f"{file}: {place}")
        name = head.kind or (default.kind if default else "")
        if not name:
            raise ClusterFileError(f"{file}: {place} has no kind")
        if name.endswith("List"):
            inner = _TypeMeta(name.removesuffix("List"), head.api_version)
            listed = _list_of(document, f"{file}: {name}")
            self._note_unread(listed.metadata)
            for index, item in enumerate(listed.items or ()):
                self.add(item, file, inner, place=f"item {index}")
            return
        version = head.api_version or (default.api_version if default else "")
        try:
            kind = _kind_of(name, version)
        except ValueError as error:
            raise ClusterFileError(f"{file}: {name} {_name_of(document) or f'({place})'}: {error}") from error
        if kind is None:
            self._left_out[f"{name}.{version.rpartition('/')[0]}" if name in _KINDS_BY_NAME else name] += 1
        else:
            self._keep(kind, document, file, place)

    def _note_unread(self, metadata: _ListMetadata | None) -> None:
        """Fields that this version does not know either way are of no use to it."""
        names = ((metadata.annotations if metadata else None) or {}).get(UNREAD_ANNOTATION, "").split(",")
        self._unread.update(name for name in names if name in self._found)

    def _keep(self, kind: str, document: Any, file: str, place: str) -> None:
        try:
            loaded = _with_defaults(_decode(document, KINDS[kind].type), KINDS[kind])
            validate(loaded)
            self._check_alone(kind, loaded, file)
        except ValueError as error:
            raise ClusterFileError(
                f"{file}: {kind} {_name_of(document) or f'({place})'}: {decode_error_message(error)}"
            ) from error
        self._found[KINDS[kind].field].append(loaded)

    def _check_alone(self, kind: str, loaded: Value, file: str) -> None:
        """ValueError unless the object has a name and is the only one of that name, and of that uid if it is a pod."""
        metadata = loaded.metadata  # type: ignore[attr-defined]
        if not metadata.name:
            raise ValueError("metadata.name is missing")
        key = (kind, metadata.namespace, metadata.name)
        if key in self._first_in:
            raise ValueError(f"is there twice, first in {self._first_in[key]}")
        self._first_in[key] = file
        if isinstance(loaded, Pod) and (other := self._pod_by_uid.setdefault(metadata.uid, loaded.key)) != loaded.key:
            raise ValueError(f"has the same uid as Pod {other}")


def _kind_of(name: str, api_version: str) -> str | None:
    """The kind of KINDS; None if no decision reads it; ValueError if two have that name and the version is missing."""
    kinds = _KINDS_BY_NAME.get(name, {})
    group, slash, _ = api_version.rpartition("/")
    if slash or not kinds:
        return kinds.get(group)
    if len(kinds) > 1:
        versions = " or ".join(KINDS[kind].api_version for kind in kinds.values())
        raise ValueError(f"apiVersion is missing: {versions}")
    return next(iter(kinds.values()))


def _list_of(document: Any, label: str) -> _Items | _AnyItems:
    if isinstance(document, msgspec.Raw):
        return _read(document, _Items, label)
    return _read(document, _AnyItems, label)


def _with_defaults(loaded: Any, kind: Kind) -> Any:
    """Fill in what the API server would have: the namespace, and a uid that can name the pod."""
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
    """Decode JSON or convert parsed YAML; ValueError (msgspec's errors and bad UTF-8 are some) if it does not fit."""
    try:
        if isinstance(document, msgspec.Raw):
            decoded: T = _DECODERS[struct].decode(document)
            return decoded
        return msgspec.convert(document, struct)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _name_of(document: Any) -> str:
    """Return `namespace/name` if that much of a broken object can be read, else nothing."""
    try:
        name = _decode(document, _MetadataOnly).metadata
    except ValueError:
        return ""
    return f"{name.namespace}/{name.name}" if name.namespace and name.name else name.name
