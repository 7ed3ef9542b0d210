"""Load a cluster from manifests, such as the output of `kubectl get nodes,pods,pdb,… -A -o json`.

The input is JSON or YAML, plain or gzipped: one List, one object, several documents in a file, or a directory of such
files. Kinds that no decision reads are counted and skipped. Hand-written YAML gets a few defaults: the namespace
`default`, the UID `namespace/name` for a pod, and a count of one device for a request of a claim.

Rule: an object is loaded completely, or the load fails with a message that names file, object and field: with half a
cluster, decisions would evict the wrong pods.
"""

import codecs
import contextlib
import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from extender.errors import ClusterFileError
from extender.k8s.devices.objects import ResourceClaim
from extender.k8s.kinds import KINDS, ClusterObjects, Kind, kind_without_group
from extender.k8s.objects import Labels, Object, Pod
from extender.k8s.validation import decode_error_message, validate
from extender.utilities.regular_file import gunzip, read_regular_file, size_text
from extender.utilities.text import shortened
from extender.utilities.yaml_reader import LimitError, YAMLError, read_documents

UNREAD_ANNOTATION = "extender/unreadable"  # On a dumped List: unreadable fields of ClusterObjects, comma-separated
MANIFEST_SUFFIXES = (".json", ".yaml", ".yml", ".json.gz", ".yaml.gz", ".yml.gz")

# Maximum size of a file, and of all files of a directory together, compressed and decompressed. A dump of 5,000 nodes
# with 150,000 pods takes 78 MiB, one of 130,000 devices, most of them in use, 145 MiB.
MAX_BYTES = 256 << 20
MAX_YAML_BYTES = 128 << 20  # Size of a YAML file, which takes ten times the time and memory of JSON
MAX_FILES = 1000  # Files of a directory
MAX_OBJECTS = 1_000_000  # Objects, including those of skipped kinds
MAX_JSON_VALUES = 9_000_000  # Counted by commas, up to 100 bytes of memory each; the pods above have 2.8 million
MAX_NESTED_LISTS = 3
MAX_SKIPPED_KINDS = 1000  # Kinds counted by name; objects of further kinds are counted together
MAX_MESSAGE_CHARACTERS = 600  # Length of an error message, which may quote names and values of a file

ManifestSource = str | os.PathLike[str] | Mapping[str, Any] | ClusterObjects


@dataclass(frozen=True, slots=True)
class LoadReport:
    """The result of a load: the objects, and the kinds that were skipped."""

    objects: ClusterObjects
    skipped_kinds: Mapping[str, int] = field(default_factory=dict)  # Kind that no decision reads -> number of objects
    kept: Sequence[Mapping[str, Any]] = ()  # Undecoded objects of the kinds in `keep`


def load_cluster(source: ManifestSource) -> ClusterObjects:
    """Return the objects of a file, a directory or a parsed List; ClusterFileError if any of them is invalid."""
    return read_cluster(source).objects


def read_cluster(source: ManifestSource, keep: Collection[str] = (), namespace: str = "default") -> LoadReport:
    """Return the objects and the counts of skipped kinds; ClusterFileError if any input is invalid.

    `keep`: kinds whose objects are returned undecoded; `namespace`: default namespace of objects.
    """
    if isinstance(source, ClusterObjects):
        return LoadReport(source)
    if isinstance(source, Mapping):
        with _short_messages():
            collector = _Collector(keep, namespace)
            collector.add(source, "cluster")
            return collector.report()
    return parse_files(read_files(Path(source)), keep, namespace)


def read_files(path: Path) -> dict[Path, bytes]:
    """Return the contents of a file, or of the files of a directory; ClusterFileError if one cannot be read."""
    contents: dict[Path, bytes] = {}
    size = 0
    with _short_messages():
        for file in cluster_files(path):
            contents[file] = _read_file(file)
            size += len(contents[file])
            if size > MAX_BYTES:
                raise ClusterFileError(f"{path.name}: its files are larger than {size_text(MAX_BYTES)} together")
    return contents


def parse_files(contents: dict[Path, bytes], keep: Collection[str] = (), namespace: str = "default") -> LoadReport:
    """Return the LoadReport of files that have been read; empties `contents` to save memory."""
    collector = _Collector(keep, namespace)
    with _short_messages():
        for file in tuple(contents):
            for number, document in enumerate(_documents(file, contents.pop(file)), start=1):
                collector.add(document, file.name, place=f"document {number}")
        return collector.report()


@contextlib.contextmanager
def _short_messages() -> Iterator[None]:
    try:
        yield
    except ClusterFileError as error:
        raise ClusterFileError(shortened(str(error), MAX_MESSAGE_CHARACTERS)) from error.__cause__


def example_cluster() -> ClusterObjects:
    """Return the example cluster that ships with the package (12 nodes)."""
    with resources.as_file(resources.files("extender.cluster.files") / "example.yaml") as path:
        return load_cluster(path)


def cluster_files(path: Path) -> list[Path]:
    """Return the path itself, or the files of a directory with a known suffix, sorted by name."""
    try:
        if not path.is_dir():
            return [path]
        found = sorted(f for f in path.iterdir() if f.name.endswith(MANIFEST_SUFFIXES) and not f.name.startswith("."))
    except OSError as error:
        raise ClusterFileError(f"{path}: {error.strerror}") from error
    except ValueError as error:  # a NUL byte in the path
        raise ClusterFileError(f"{path}: {error}") from error
    if len(found) > MAX_FILES:
        raise ClusterFileError(f"{path}: has more than {MAX_FILES:,} cluster files")
    if not found:
        raise ClusterFileError(f"{path}: no file in this directory ends in {', '.join(MANIFEST_SUFFIXES)}")
    return found


# --- bytes to documents ---------------------------------------------------------------------------------------------


def _read_file(path: Path) -> bytes:
    try:
        data = read_regular_file(path, MAX_BYTES)
        if data.startswith(b"\x1f\x8b"):
            data = gunzip(data, MAX_BYTES)
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # written by `>` in PowerShell
            data = data.decode("utf-16").encode()
    except OSError as error:
        raise ClusterFileError(f"{path.name}: {error.strerror or error}") from error
    except ValueError as error:
        raise ClusterFileError(f"{path.name}: {error}") from error
    return data.removeprefix(codecs.BOM_UTF8)


def _documents(path: Path, data: bytes) -> Iterator[Any]:
    """Yield the documents of a file: `Raw` for JSON, plain Python values for YAML."""
    is_empty = True
    try:
        for document in _parse(data, is_yaml=path.name.removesuffix(".gz").endswith((".yaml", ".yml"))):
            is_empty = False
            yield document
    except LimitError as error:
        raise ClusterFileError(f"{path.name}: {error}") from error
    except YAMLError as error:
        raise ClusterFileError(f"{path.name}: not YAML: {error}") from error
    except RecursionError as error:
        raise ClusterFileError(f"{path.name}: is nested too deeply") from error
    except ValueError as error:
        raise ClusterFileError(f"{path.name}: not JSON: {error}") from error
    if is_empty:
        raise ClusterFileError(f"{path.name}: the file is empty")


def _parse(data: bytes, is_yaml: bool) -> Iterator[Any]:
    # 1. Parse JSON with the fast decoder, also in a .yaml file; flow-style YAML (`{a: b}`) looks similar.
    if data[:64].lstrip()[:1] in (b"{", b"["):
        # Counted in parts, so that other threads run in between.
        values = sum(data.count(b",", start, start + (16 << 20)) for start in range(0, len(data), 16 << 20))
        if values > MAX_JSON_VALUES:
            raise LimitError(f"has more than {MAX_JSON_VALUES:,} values")
        if not is_yaml:
            return _json_documents(data)
        with contextlib.suppress(ValueError):
            return iter(list(_json_documents(data)))
    # 2. Parse everything else as YAML.
    if len(data) > MAX_YAML_BYTES:
        raise LimitError(f"is YAML of more than {size_text(MAX_YAML_BYTES)}: use JSON")
    return (document for document in read_documents(data) if document is not None)


_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
_MALFORMED = re.compile(r"(?:JSON is malformed: )?(.*?) \(byte (\d+)\)")


def _json_documents(data: bytes) -> Iterator[msgspec.Raw]:
    """Yield the values of concatenated JSON (`{…} {…}`), each scanned once."""
    start, rest = 0, memoryview(data)
    while True:
        try:
            yield msgspec.json.decode(rest[start:], type=msgspec.Raw)
            return
        except msgspec.DecodeError as error:
            if not (trailing := _TRAILING.search(str(error))):
                raise ValueError(_json_problem(error, data, start)) from error
        end = start + int(trailing[1]) - 1  # msgspec has read one character of the next value
        yield msgspec.Raw(data[start:end])
        start = end


def _json_problem(error: msgspec.DecodeError, data: bytes, start: int) -> str:
    found = _MALFORMED.fullmatch(str(error))
    if found is None:
        return "unexpected end" if "truncated" in str(error) else str(error)
    line = data.count(b"\n", 0, start + int(found[2])) + 1
    return f"{found[1]} at line {line}"


# --- documents to objects -------------------------------------------------------------------------------------------


class _TypeMeta(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""


class _ListMetadata(msgspec.Struct):
    annotations: Labels | None = None


class _List(msgspec.Struct):
    items: list[Any] | None = None
    metadata: _ListMetadata | None = None


class _RawList(_List):
    """A List in JSON, whose items stay raw so that each is decoded by its type in one pass."""

    items: list[msgspec.Raw] | None = None


class _NameOnly(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _MetadataOnly(msgspec.Struct):
    metadata: _NameOnly


_KINDS_BY_NAME: dict[str, dict[str, str]] = {}  # `kind` field of objects -> API group -> key of KINDS
for _kind, _of_kind in KINDS.items():
    _KINDS_BY_NAME.setdefault(kind_without_group(_kind), {})[_of_kind.group] = _kind


class _Collector:
    """Collects the objects of documents and rejects duplicates."""

    def __init__(self, keep: Collection[str], namespace: str) -> None:
        self._keep, self._namespace = keep, namespace
        self._kept: list[Mapping[str, Any]] = []
        self._found: dict[str, list[Object]] = {kind.field: [] for kind in KINDS.values()}
        self._defined_in: dict[tuple[str, str, str], str] = {}
        self._pod_by_uid: dict[str, str] = {}
        self._skipped: Counter[str] = Counter()
        self._unread: set[str] = set()
        self._objects = 0

    def report(self) -> LoadReport:
        found: dict[str, Any] = {field: tuple(objects) for field, objects in self._found.items()}
        objects = ClusterObjects(**found, unreadable_tables=tuple(sorted(self._unread)))
        return LoadReport(objects, dict(self._skipped), self._kept)

    def add(
        self, document: Any, file: str, default: _TypeMeta | None = None, place: str = "the document", lists: int = 0
    ) -> None:
        """Add one object or all items of a List.

        `default`: item type that a typed list (NodeList) implies; `lists`: number of enclosing Lists.
        """
        # 1. Without a kind, nothing can be decoded.
        head = _read(document, _TypeMeta, f"{file}: {place}")
        name = head.kind or (default.kind if default else "")
        if not name:
            raise ClusterFileError(f"{file}: {place} has no kind")
        # 2. Add the items of a List. Its annotation names the kinds that a dump could not read.
        if name.endswith("List"):
            if lists == MAX_NESTED_LISTS:
                raise ClusterFileError(f"{file}: {place}: Lists nested more than {MAX_NESTED_LISTS} levels deep")
            inner = _TypeMeta(name.removesuffix("List"), head.api_version)
            struct = _RawList if isinstance(document, msgspec.Raw) else _List
            listed = _read(document, struct, f"{file}: {name}")
            noted = ((listed.metadata.annotations if listed.metadata else None) or {}).get(UNREAD_ANNOTATION, "")
            # An unknown field was written by a newer version.
            self._unread.update(field for field in noted.split(",") if field in self._found)
            for index, item in enumerate(listed.items or ()):
                self.add(item, file, inner, place=f"item {index}", lists=lists + 1)
            return
        self._objects += 1
        if self._objects > MAX_OBJECTS:
            raise ClusterFileError(f"{file}: more than {MAX_OBJECTS:,} objects")
        version = head.api_version or (default.api_version if default else "")
        # 3. Keep an object undecoded, decode it if decisions read its kind, or count it as skipped.
        if name in self._keep:
            self._kept.append({**_read(document, dict[str, Any], f"{file}: {place}"), "kind": name})
            return
        try:
            kind = _kind_of(name, version)
        except ValueError as error:
            raise ClusterFileError(f"{file}: {name} {_name_of(document) or f'({place})'}: {error}") from error
        if kind is not None:
            self._add_object(kind, document, file, place)
            return
        skipped = shortened(f"{name}.{version.rpartition('/')[0]}" if name in _KINDS_BY_NAME else name, 100)
        is_known = skipped in self._skipped or len(self._skipped) < MAX_SKIPPED_KINDS
        self._skipped[skipped if is_known else "of further kinds"] += 1

    def _add_object(self, kind: str, document: Any, file: str, place: str) -> None:
        try:
            loaded = _with_defaults(_decode(document, KINDS[kind].type), KINDS[kind], self._namespace)
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
    """Return the key of KINDS, or None if no decision reads the kind.

    ValueError if the kind is ambiguous without apiVersion, or if the fields of that version are not supported.
    """
    kinds = _KINDS_BY_NAME.get(name, {})
    group, slash, version = api_version.rpartition("/")
    if slash or not kinds:
        kind = kinds.get(group)
        if kind is not None and KINDS[kind].has_unlike_versions and version not in KINDS[kind].versions:
            supported = " and ".join(KINDS[kind].versions)
            raise ValueError(f"apiVersion {api_version} is not supported, only {supported}")
        return kind
    if len(kinds) > 1:
        versions = " or ".join(KINDS[kind].api_version for kind in kinds.values())
        raise ValueError(f"apiVersion is missing: {versions}")
    return next(iter(kinds.values()))


def _with_defaults(loaded: Any, kind: Kind, namespace: str) -> Any:
    """Set fields that the API server would have set: the namespace, a UID for a pod, and counts of devices."""
    metadata = loaded.metadata
    if kind.namespaced and not metadata.namespace:
        metadata = msgspec.structs.replace(metadata, namespace=namespace)
    if isinstance(loaded, Pod) and not metadata.uid:
        metadata = msgspec.structs.replace(metadata, uid=f"{metadata.namespace}/{metadata.name}")
    if isinstance(loaded, ResourceClaim):
        for request in loaded.spec.devices.requests or ():
            for one in filter(None, (request.exactly, *(request.first_available or ()))):
                # resource/v1 SetDefaults_ExactDeviceRequest, v1.36
                if not one.allocation_mode:
                    msgspec.structs.force_setattr(one, "allocation_mode", "ExactCount")
                if one.allocation_mode == "ExactCount" and not one.count:
                    msgspec.structs.force_setattr(one, "count", 1)
    return loaded if metadata is loaded.metadata else msgspec.structs.replace(loaded, metadata=metadata)


T = TypeVar("T")


def _read(document: Any, struct: type[T], label: str) -> T:
    try:
        return _decode(document, struct)
    except ValueError as error:
        raise ClusterFileError(f"{label}: {decode_error_message(error)}") from error


def _decode(document: Any, struct: type[T]) -> T:
    """Decode JSON or convert parsed YAML; ValueError (the base of msgspec's and UTF-8 errors) if it is invalid."""
    try:
        if isinstance(document, msgspec.Raw):
            return msgspec.json.decode(document, type=struct)
        return msgspec.convert(document, struct)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _name_of(document: Any) -> str:
    """Return `namespace/name` of an invalid object, or "" if it has no valid metadata either."""
    try:
        name = _decode(document, _MetadataOnly).metadata
    except ValueError:
        return ""
    text = f"{name.namespace}/{name.name}" if name.namespace and name.name else name.name
    return shortened(text, 300)
