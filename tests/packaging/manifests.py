"""The manifests of docs/kubernetes, as the tests look at them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

ROOT: Final = Path(__file__).parents[2]
MANIFESTS: Final = ROOT / "docs/kubernetes"
PATCH: Final = "observe.yaml"
BROKERS: Final = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: kafka}
spec:
  serviceName: kafka
  selector: {matchLabels: {app: kafka}}
  template:
    metadata: {labels: {app: kafka}}
    spec:
      securityContext: {runAsNonRoot: true, runAsUser: 1000, runAsGroup: 1000, fsGroup: 1000}
      containers:
        - name: kafka
          image: apache/kafka:4.1.0
          volumeMounts: [{name: data, mountPath: /var/lib/kafka}]
      volumes:
        - name: properties
          configMap: {name: kafka}
  volumeClaimTemplates:
    - metadata: {name: data}
      spec:
        accessModes: [ReadWriteOnce]
        resources: {requests: {storage: 100Gi}}
"""
"""A StatefulSet to which the patch is applied."""
Document = dict[str, Any]


class Run(NamedTuple):
    """The container of logcleaner in a manifest, and the pod around it."""

    manifest: str
    container: Document
    pod: Document

    @property
    def arguments(self) -> list[str]:
        """Return the arguments, as they stand in the manifest."""
        return list(self.container["args"])

    def of(self, key: str) -> Any:
        """Return a setting of the security context: the container's own, else the pod's."""
        own: Document = self.container["securityContext"]
        return own.get(key, self.pod["securityContext"].get(key))

    def volume(self, name: str) -> Document:
        """Return a volume of the pod."""
        (found,) = (volume for volume in self.pod["volumes"] if volume["name"] == name)
        return dict(found)


def names() -> list[str]:
    """Return the names of the files."""
    return sorted(path.name for path in MANIFESTS.iterdir())


def documents(name: str) -> list[Document]:
    """Return the documents of a manifest; of the patch, the StatefulSet with it."""
    text = (MANIFESTS / name).read_text("utf-8")
    found = list(yaml.safe_load_all(text))
    return [patched(yaml.safe_load(BROKERS), found[0])] if name == PATCH else found


def patched(document: Any, patch: Any) -> Any:
    """Apply a strategic merge patch: mappings key by key, lists of things with a name by that name."""
    if isinstance(document, Mapping) and isinstance(patch, Mapping):
        both = {key: patched(document[key], value) if key in document else value for key, value in patch.items()}
        return {**document, **both}
    if isinstance(document, list) and isinstance(patch, list):
        ours = {entry["name"]: entry for entry in document}
        return list({**ours, **{entry["name"]: patched(ours.get(entry["name"]), entry) for entry in patch}}.values())
    return patch


def runs() -> list[Run]:
    """Return every container of logcleaner."""
    return list(_runs())


def _runs() -> Iterator[Run]:
    for name in names():
        for document in documents(name):
            spec = document.get("spec", {})
            spec = spec.get("jobTemplate", {}).get("spec", spec)
            pod = spec.get("template", {}).get("spec", {})
            for container in pod.get("containers", ()):
                if container["name"] == "logcleaner":
                    yield Run(name, container, pod)
