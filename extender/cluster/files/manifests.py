"""Load a cluster from manifests, such as the output of `kubectl get nodes,pods,pdb,… -A -o json`.

The input is JSON or YAML, plain or gzipped: one List, one object, several documents in a file, or a directory of such
files with its sub-folders. Kinds that no decision reads are counted and skipped. An object with a UID was stored by an
API server and is taken as it is; one without was written by hand and is admitted (`admission`). The same object in
several files, as in a must-gather, is one object: the one with the newest resourceVersion.

Rule: an object is loaded completely, or the load fails with a message that names file, object and field: with half a
cluster, decisions would evict the wrong pods. What is not read is in the report.
"""

import contextlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from extender.admission.admit import admit
from extender.admission.cluster import AdmissionCluster
from extender.admission.findings import ASSUMED, LEFT_OUT, PRUNED, Findings, Refused
from extender.cluster.files.reading import Contents, find_files
from extender.cluster.watch.decode import kept_conditions
from extender.core.profile import KubeScheduler
from extender.errors import ClusterFileError
from extender.k8s.devices.objects import ResourceClaim
from extender.k8s.kinds import (
    KIND_LOAD_ORDER,
    KINDS,
    ClusterObjects,
    Key,
    Kind,
    ObjectTables,
    key_of,
    kind_without_group,
)
from extender.k8s.objects import Labels, Object, Pod
from extender.k8s.validation import decode_error_message, validate
from extender.k8s.version.found import FoundVersion, version_of_pods
from extender.utilities.regular_file import size_text
from extender.utilities.text import join_names, shortened
from extender.utilities.yaml_reader import LimitError, YAMLError, read_documents

UNREAD_ANNOTATION = "extender/unreadable"  # On a dumped List: unreadable fields of ClusterObjects, comma-separated

MAX_YAML_BYTES = 128 << 20  # Size of a YAML file, which takes ten times the time and memory of JSON
MAX_REPARSED_BYTES = 1 << 20  # Size of a .json file that is parsed as YAML where it is not JSON
MAX_OBJECTS = 1_000_000  # Objects, including those of skipped kinds
MAX_JSON_VALUES = 9_000_000  # Counted by commas, up to 100 bytes of memory each; the pods above have 2.8 million
MAX_NESTED_LISTS = 3
MAX_SKIPPED_KINDS = 1000  # Kinds counted by name; objects of further kinds are counted together
MAX_MESSAGE_CHARACTERS = 600  # Length of an error message, which may quote names and values of a file
MAX_REFUSAL_CHARACTERS = 8000  # Length of an error message with the mistakes of an object
DEFAULT_NAMESPACE = "default"  # Namespace of objects that name none
MAX_LISTED = 50  # Kinds, fields or files that a note names
OBJECTS_PER_CALL = 1000  # Objects after which progress is reported again

ManifestSource = str | os.PathLike[str] | Mapping[str, Any] | ClusterObjects

FileAdmission = Literal["local", "none"]
"""local: objects without a UID are admitted by our own module; none: they are taken as they are."""

SchedulerOf = Callable[[FoundVersion | None], KubeScheduler]
"""Version found in the files, if any -> the kube-scheduler whose version the API server has, too."""


OnProgress = Callable[[str, int, int | None], None]
"""(what is read, number so far, total if known); as that of cluster.list."""


def default_scheduler(_: FoundVersion | None) -> KubeScheduler:
    """Return kube-scheduler of the newest minor, whatever the cluster runs."""
    return KubeScheduler()


@dataclass(frozen=True, slots=True)
class LoadReport:
    """The result of a load: the objects, and what was not read as it stands in the files."""

    objects: ClusterObjects
    skipped_kinds: Mapping[str, int] = field(default_factory=dict)  # Kind that no decision reads -> number of objects
    passed_over: Mapping[str, int] = field(default_factory=dict)  # Suffix of files that are no manifests -> number
    without_objects: Sequence[str] = ()  # Files of sub-folders that hold no manifests
    replaced: Sequence[str] = ()  # Objects that are there in several versions, of which the newest counts
    admitted: Mapping[str, Findings] = field(default_factory=dict)  # Object without a UID -> what admission found

    def notes(self) -> list[str]:
        """Return a line for each way in which what was read differs from what the files hold."""
        skipped = [f"{count} {kind}" for kind, count in sorted(self.skipped_kinds.items())]
        files = [f"{count} {suffix}" for suffix, count in sorted(self.passed_over.items())]
        found = self.admitted.items()
        lines = {
            "ignored, not used by any decision": skipped,
            "files that are no manifests": files,
            "files without objects": self.without_objects,
            "in several versions, of which the newest counts": self.replaced,
            LEFT_OUT: [f"{of} {one}" for of, all_ in found for one in all_.left_out],
            PRUNED: [f"{of} {one}" for of, all_ in found for one in all_.pruned],
            ASSUMED: list(dict.fromkeys(one for _, all_ in found for one in all_.assumed)),
        }
        return [f"{what}: {join_names(names, MAX_LISTED)}" for what, names in lines.items() if names]


def load_cluster(source: ManifestSource, *, admission: FileAdmission = "local") -> ClusterObjects:
    """Return the objects of a file, a directory or a parsed List; ClusterFileError if any of them is invalid."""
    return read_cluster(source, admission=admission).objects


def read_cluster(
    source: ManifestSource,
    *,
    admission: FileAdmission = "local",
    scheduler_of: SchedulerOf = default_scheduler,
) -> LoadReport:
    """Return the objects and what was not read; ClusterFileError if any input is invalid."""
    if isinstance(source, ClusterObjects):
        return LoadReport(source)
    if isinstance(source, Mapping):
        with _short_messages():
            collector = _Collector(admission)
            collector.add(source, "cluster")
            return collector.report(scheduler_of)
    contents = read_files([Path(source)])
    return parse_files(contents, admission=admission, scheduler_of=scheduler_of)


def read_files(paths: Iterable[Path], contents: Contents | None = None) -> Contents:
    """Read files and folders, beside `contents` that were read already; ClusterFileError if one cannot be read."""
    with _short_messages():
        return find_files(paths, contents).read()


def parse_files(
    contents: Contents,
    *,
    admission: FileAdmission = "local",
    scheduler_of: SchedulerOf = default_scheduler,
    on_progress: OnProgress | None = None,
) -> LoadReport:
    """Return the LoadReport of files that have been read; empties `contents` to save memory.

    `on_progress` is called with "objects", their number so far, and None: how many there are is not known.
    """
    collector = _Collector(admission, on_progress)
    without_objects = []
    with _short_messages():
        for file in tuple(contents.files):
            number = 0
            try:
                for number, document in enumerate(_documents(file, contents.files.pop(file)), start=1):
                    collector.add(document, file, place=f"document {number}")
            except _NoManifest:
                if number > 1 or file not in contents.nested:
                    raise
                without_objects.append(file)
        found = collector.report(scheduler_of)
    objects = msgspec.structs.replace(found.objects, files=tuple(contents.sources))
    return replace(found, objects=objects, passed_over=dict(contents.passed_over), without_objects=without_objects)


class RawManifest(NamedTuple):
    """An object of a file that people wrote, as it stands there."""

    place: str
    """File and, if it has several documents, the place in it, for messages: `web.yaml, document 2`."""
    kind: str
    """Kind as written: it may be one that nothing here reads."""
    object: dict[str, Any]
    """The object; an item of a typed list (PodList) has the kind and apiVersion that the list implies."""

    @property
    def is_stored(self) -> bool:
        """Return whether an API server has stored the object."""
        return _has_uid(self.object)

    @property
    def name(self) -> Key:
        """Return namespace (`default` if there is none) and name, both empty if they are not texts."""
        metadata = self.object.get("metadata")
        found = metadata if isinstance(metadata, dict) else {}
        namespace, name = found.get("namespace") or "default", found.get("name") or ""
        return (namespace, name) if isinstance(namespace, str) and isinstance(name, str) else ("", "")


def read_manifests(contents: Mapping[str, bytes]) -> list[RawManifest]:
    """Return the objects of files, undecoded and in order; the items of Lists stand for the Lists.

    `contents`: name of a file -> its bytes. Documents without content are passed over. ClusterFileError for a file
    that is neither JSON nor YAML, an object without a kind, and a file without objects.
    """
    found: list[RawManifest] = []
    with _short_messages():
        for file, data in contents.items():
            found += _manifests(file, list(_documents(file, data)))
    return found


def read_settings_and_manifests(
    file: str, data: bytes, default_kind: str = "Pod"
) -> tuple[dict[str, Any], list[RawManifest]]:
    """Return the objects of a file like `read_manifests`, and the one document that is none: it has no metadata.

    A document may also be a list of objects. An object without a kind has the `default_kind`.
    """
    settings, objects = dict[str, Any](), list[Any]()
    with _short_messages():
        for number, document in enumerate(_documents(file, data), start=1):
            place = f"{file}: document {number}"
            value = _read(document, object, place)
            if isinstance(value, list):
                objects += value
            elif not isinstance(value, dict) or value.keys() & {"kind", "apiVersion", "metadata", "spec"}:
                objects.append(value)
            elif settings:
                raise ClusterFileError(f"{place} has no kind")
            else:
                settings = value
        return settings, _manifests(file, objects, _TypeMeta(default_kind))


def _manifests(file: str, documents: Sequence[Any], default: "_TypeMeta | None" = None) -> list[RawManifest]:
    found = []
    for number, document in enumerate(documents, start=1):
        for item in _flattened(document, file, f"document {number}", set(), default):
            in_file = "" if len(documents) == 1 and item.document is document else f", {item.place}"
            found.append(RawManifest(f"{file}{in_file}", item.kind, _raw_object(item)))
            if len(found) > MAX_OBJECTS:
                raise ClusterFileError(f"{file}: more than {MAX_OBJECTS:,} objects")
    return found


@contextlib.contextmanager
def _short_messages() -> Iterator[None]:
    try:
        yield
    except ClusterFileError as error:
        # Admission reports all mistakes at once.
        limit = MAX_REFUSAL_CHARACTERS if isinstance(error.__cause__, Refused) else MAX_MESSAGE_CHARACTERS
        raise type(error)(shortened(str(error), limit)) from error.__cause__


def example_cluster() -> ClusterObjects:
    """Return the example cluster that ships with the package (12 nodes)."""
    with resources.as_file(resources.files("extender.cluster.files") / "example.yaml") as path:
        return msgspec.structs.replace(load_cluster(path, admission="none"), files=())


# --- bytes to documents ---------------------------------------------------------------------------------------------


class _NoManifest(ClusterFileError):
    """A file is empty, or holds something else than an object with a kind."""


def _documents(file: str, data: bytes) -> Iterator[Any]:
    """Yield the documents of a file: `Raw` for JSON, plain Python values for YAML."""
    is_empty = True
    try:
        for document in _parse(data, is_yaml=not file.removesuffix(".gz").endswith(".json")):
            is_empty = False
            yield document
    except LimitError as error:
        raise ClusterFileError(f"{file}: {error}") from error
    except YAMLError as error:
        raise ClusterFileError(f"{file}: not YAML: {error}") from error
    except RecursionError as error:
        raise ClusterFileError(f"{file}: is nested too deeply") from error
    except ValueError as error:
        raise ClusterFileError(f"{file}: not JSON: {error}") from error
    if is_empty:
        raise _NoManifest(f"{file}: the file is empty")


def _parse(data: bytes, is_yaml: bool) -> Iterator[Any]:
    # 1. Parse JSON with the fast decoder, also in a .yaml file; flow-style YAML (`{a: b}`) looks similar.
    if data[:64].lstrip()[:1] in (b"{", b"["):
        # Counted in parts, so that other threads run in between.
        values = sum(data.count(b",", start, start + (16 << 20)) for start in range(0, len(data), 16 << 20))
        if values > MAX_JSON_VALUES:
            raise LimitError(f"has more than {MAX_JSON_VALUES:,} values")
        if not is_yaml and len(data) > MAX_REPARSED_BYTES:
            return _json_documents(data)
        try:
            return iter(list(_json_documents(data)))
        except ValueError:
            if not is_yaml:  # kubectl reads a comment, a comma too many or 010 in a .json file as YAML
                with contextlib.suppress(YAMLError):
                    return iter(
                        [document for document in read_documents(data, is_stored=_has_uid) if document is not None]
                    )
                raise
    # 2. Parse everything else as YAML.
    if len(data) > MAX_YAML_BYTES:
        raise LimitError(f"is YAML of more than {size_text(MAX_YAML_BYTES)}: use JSON")
    return (document for document in read_documents(data, is_stored=_has_uid) if document is not None)


def _has_uid(manifest: Mapping[str, Any]) -> bool:
    metadata = manifest.get("metadata")
    return isinstance(metadata, dict) and bool(metadata.get("uid"))


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
    items: list[Any] | msgspec.UnsetType | None = msgspec.UNSET
    metadata: _ListMetadata | None = None


class _RawList(_List):
    """A List in JSON, whose items stay raw so that each is decoded by its type in one pass."""

    items: list[msgspec.Raw] | msgspec.UnsetType | None = msgspec.UNSET


class _NameOnly(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""


class _MetadataOnly(msgspec.Struct):
    metadata: _NameOnly


_TABLES = frozenset(kind.field for kind in KINDS.values())
_KINDS_BY_NAME: dict[str, dict[str, str]] = {}  # `kind` field of objects -> API group -> key of KINDS
for _kind, _of_kind in KINDS.items():
    _KINDS_BY_NAME.setdefault(kind_without_group(_kind), {})[_of_kind.group] = _kind


class _Item(NamedTuple):
    """An object as it stands in a file, outside of any List."""

    document: Any
    """`Raw` for JSON, plain Python values for YAML."""
    kind: str
    api_version: str
    file: str
    place: str
    """Place in the file: `document 2`, `item 3`."""

    def label(self, kind: str) -> str:
        """File, kind and name, for messages."""
        return f"{self.file}: {kind} {_name_of(self.document) or f'({self.place})'}"


def _flattened(
    document: Any, file: str, place: str, unread: set[str], default: _TypeMeta | None = None, lists: int = 0
) -> Iterator[_Item]:
    """Yield the object, or the items of a List, to any depth.

    `unread`: gets the kinds that a dump could not read, which an annotation of the List names; `default`: type of the
    items that a typed list (NodeList) implies; `lists`: number of enclosing Lists.
    """
    try:
        head = _read(document, _TypeMeta, f"{file}: {place}")
    except ClusterFileError as error:
        raise _NoManifest(str(error)) from error
    kind = head.kind or (default.kind if default else "")
    if not kind:
        raise _NoManifest(f"{file}: {place} has no kind")
    if kind.endswith("List"):
        struct = _RawList if isinstance(document, msgspec.Raw) else _List
        listed = _read(document, struct, f"{file}: {kind}")
        # A custom resource such as AllowList has no items: it is an object.
        if kind == "List" or listed.items is not msgspec.UNSET:
            if lists == MAX_NESTED_LISTS:
                raise ClusterFileError(f"{file}: {place}: Lists nested more than {MAX_NESTED_LISTS} levels deep")
            noted = ((listed.metadata.annotations if listed.metadata else None) or {}).get(UNREAD_ANNOTATION, "")
            # An unknown field was written by a newer version.
            unread.update(field for field in noted.split(",") if field in _TABLES)
            inner = _TypeMeta(kind.removesuffix("List"), head.api_version) if kind != "List" else default
            for index, item in enumerate(listed.items or ()):
                yield from _flattened(item, file, f"item {index}", unread, inner, lists + 1)
            return
    yield _Item(document, kind, head.api_version or (default.api_version if default else ""), file, place)


def _raw_object(item: _Item) -> dict[str, Any]:
    """Return the object as a dict, with the kind that its List implies."""
    raw = {**_read(item.document, dict[str, Any], item.label(item.kind)), "kind": item.kind}
    return raw | {"apiVersion": item.api_version} if item.api_version else raw


class _Collector:
    """Collects the objects of documents: one of each name, the newest if the files have it several times."""

    def __init__(self, admission: FileAdmission, on_progress: OnProgress | None = None) -> None:
        self._admission = admission
        self._on_progress = on_progress
        self._found: dict[str, list[Object | None]] = {kind.field: [] for kind in KINDS.values()}
        self._written: list[tuple[str, _Item, int]] = []  # Objects without a UID: kind, object, index in `_found`
        self._places: dict[tuple[str, str, str], tuple[str, int]] = {}  # (kind, namespace, name) -> file, index
        self._pod_by_uid: dict[str, str] = {}
        self._skipped: Counter[str] = Counter()
        self._unread: set[str] = set()
        self._replaced: list[str] = []
        self._objects = 0

    def report(self, scheduler_of: SchedulerOf) -> LoadReport:
        """Admit the objects without a UID, now that all classes and LimitRanges are known; return all objects."""
        admitted = self._admit_written(scheduler_of) if self._written else {}
        found: dict[str, Any] = {name: tuple(filter(None, objects)) for name, objects in self._found.items()}
        objects = ClusterObjects(**found, unreadable_tables=tuple(sorted(self._unread)))
        return LoadReport(objects, dict(self._skipped), replaced=self._replaced, admitted=admitted)

    def add(self, document: Any, file: str, place: str = "the document") -> None:
        """Add one object or all items of a List."""
        for item in _flattened(document, file, place, self._unread):
            self._objects += 1
            if self._on_progress is not None and self._objects % OBJECTS_PER_CALL == 0:
                self._on_progress("objects", self._objects, None)
            if self._objects > MAX_OBJECTS:
                raise ClusterFileError(f"{file}: more than {MAX_OBJECTS:,} objects")
            self._add_item(item)

    def _add_item(self, item: "_Item") -> None:
        """Decode the object if decisions read its kind, or count it as skipped."""
        name, version = item.kind, item.api_version
        try:
            kind = kind_of(name, version)
        except ValueError as error:
            raise ClusterFileError(f"{item.label(name)}: {error}") from error
        if kind is not None:
            self._add_object(kind, item)
            return
        skipped = shortened(f"{name}.{version.rpartition('/')[0]}" if name in _KINDS_BY_NAME else name, 100)
        is_known = skipped in self._skipped or len(self._skipped) < MAX_SKIPPED_KINDS
        self._skipped[skipped if is_known else "of further kinds"] += 1

    def _add_object(self, kind: str, item: "_Item") -> None:
        """Decode an object with a UID; leave one without to the end, in its place."""
        table = self._found[KINDS[kind].field]
        loaded, problem = None, None
        try:
            loaded = _decode(item.document, KINDS[kind].type)
        except ValueError as error:  # a manifest may have what only an API server decodes, such as null for text
            problem = error
        uid = loaded.metadata.uid if loaded is not None else _uid_of(item.document)
        if not uid and self._admission != "none":
            self._written.append((kind, item, len(table)))
            table.append(None)
            return
        if loaded is None:
            assert problem is not None
            raise ClusterFileError(f"{item.label(kind)}: {decode_error_message(problem)}") from problem
        self._put(kind, loaded, item, len(table))

    def _put(self, kind: str, loaded: Any, item: "_Item", index: int) -> None:
        """Put a decoded object at this index, or in the place of an older version of itself."""
        table, is_stored = self._found[KINDS[kind].field], bool(loaded.metadata.uid)
        try:
            loaded = _with_defaults(loaded, KINDS[kind])
            validate(loaded)
            metadata = loaded.metadata
            if not metadata.name:
                raise ValueError("metadata.name is missing")
            key = (kind, metadata.namespace, metadata.name)
            file, earlier_index = self._places.setdefault(key, (item.file, index))
            if earlier_index != index:
                earlier = table[earlier_index]
                if not is_stored or earlier is None or earlier.metadata.uid != metadata.uid:
                    raise ValueError(f"is a duplicate, first defined in {file}")
                if metadata.resource_version != earlier.metadata.resource_version:
                    self._replaced.append(
                        f"{kind} {loaded.key}" if isinstance(loaded, Pod) else f"{kind} {metadata.name}"
                    )
                    if _revision(loaded) >= _revision(earlier):
                        table[earlier_index] = loaded
                return
            if (
                isinstance(loaded, Pod)
                and (other := self._pod_by_uid.setdefault(metadata.uid, loaded.key)) != loaded.key
            ):
                raise ValueError(f"has the same uid as Pod {other}")
        except ValueError as error:
            raise ClusterFileError(f"{item.label(kind)}: {decode_error_message(error)}") from error
        table[index : index + 1] = [loaded]

    def _admit_written(self, scheduler_of: SchedulerOf) -> dict[str, Findings]:
        """Admit the objects without a UID in the order of KIND_LOAD_ORDER: pods depend on the others."""
        stored = [pod for pod in self._found["pods"] if isinstance(pod, Pod)]
        scheduler = scheduler_of(version_of_pods([*stored, *self._written_pods()]))
        tables = ObjectTables()
        cluster = AdmissionCluster(tables, scheduler.features, scheduler.minor, tuple(self._unread))
        admitted: dict[str, Findings] = {}
        by_kind: dict[str, list[tuple[_Item, int]]] = {}
        for kind, item, index in self._written:
            by_kind.setdefault(kind, []).append((item, index))
        for kind in KIND_LOAD_ORDER:
            table = self._found[KINDS[kind].field]
            tables.of(kind).update((key_of(kind, one), one) for one in table if one is not None)
        for kind in KIND_LOAD_ORDER:
            table = self._found[KINDS[kind].field]
            for item, index in by_kind.get(kind, ()):
                loaded, findings = self._admitted(kind, item, cluster)
                self._put(kind, loaded, item, index)
                one = table[index]
                assert one is not None
                tables.of(kind)[key_of(kind, one)] = one
                if findings.left_out or findings.pruned or findings.assumed:
                    admitted[item.label(kind)] = findings
        return admitted

    def _admitted(self, kind: str, item: "_Item", cluster: AdmissionCluster) -> tuple[Object, Findings]:
        """Return the object as an API server would have stored it; ClusterFileError with all mistakes."""
        raw = _raw_object(item)
        try:
            stored, findings = admit(kind, raw, cluster, is_state=True)
            return msgspec.convert(stored, KINDS[kind].type), findings
        except Refused as error:
            place = "" if _name_of(item.document) else f"{item.place}: "
            raise ClusterFileError(f"{item.file}: {place}{error}") from error
        except ValueError as error:
            raise ClusterFileError(f"{item.label(kind)}: {decode_error_message(error)}") from error
        except RecursionError as error:
            raise ClusterFileError(f"{item.label(kind)}: nested too deeply") from error

    def _written_pods(self) -> Iterator[Pod]:
        """Yield the pods without a UID that decode as they are, for the version of kube-scheduler."""
        for kind, item, _ in self._written:
            if kind == "Pod":
                with contextlib.suppress(ValueError):
                    yield _decode(item.document, Pod)


def kind_of(name: str, api_version: str) -> str | None:
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


def _with_defaults(loaded: Any, kind: Kind) -> Any:
    """Set fields that the API server would have set (namespace, UID, counts of devices), and drop what is not read."""
    metadata = loaded.metadata
    if kind.namespaced and not metadata.namespace:
        metadata = msgspec.structs.replace(metadata, namespace=DEFAULT_NAMESPACE)
    if isinstance(loaded, Pod) and not metadata.uid:
        metadata = msgspec.structs.replace(metadata, uid=f"{metadata.namespace}/{metadata.name}")
    if isinstance(loaded, Pod) and loaded.status.conditions:
        status = msgspec.structs.replace(loaded.status, conditions=kept_conditions(loaded))
        loaded = msgspec.structs.replace(loaded, status=status)
    if isinstance(loaded, ResourceClaim):
        for request in loaded.spec.devices.requests or ():
            for one in filter(None, (request.exactly, *(request.first_available or ()))):
                # resource/v1 SetDefaults_ExactDeviceRequest, v1.36
                if not one.allocation_mode:
                    msgspec.structs.force_setattr(one, "allocation_mode", "ExactCount")
                if one.allocation_mode == "ExactCount" and not one.count:
                    msgspec.structs.force_setattr(one, "count", 1)
    return loaded if metadata is loaded.metadata else msgspec.structs.replace(loaded, metadata=metadata)


def _revision(one: Object) -> int:
    """Return the resourceVersion, which is a number that grows (KEP-5504)."""
    text = one.metadata.resource_version
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else 0


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


def _uid_of(document: Any) -> str:
    """Return the UID of an object that cannot be decoded."""
    try:
        return _decode(document, _MetadataOnly).metadata.uid
    except ValueError:
        return ""


def _name_of(document: Any) -> str:
    """Return `namespace/name` of an invalid object, or "" if it has no valid metadata either."""
    try:
        name = _decode(document, _MetadataOnly).metadata
    except ValueError:
        return ""
    text = f"{name.namespace}/{name.name}" if name.namespace and name.name else name.name
    return shortened(text, 300)
