"""The manifests of docs/kubernetes: valid for Kubernetes, confined, and with commands that logcleaner knows.

tests/packaging/test_image.py runs them.
"""

from __future__ import annotations

import copy
import re
import shlex
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from cleaner import __version__
from cleaner.cli.main import build_parser
from cleaner.config.settings import parse_settings
from tests.docs.parts import built
from tests.packaging.manifests import MANIFESTS, PATCH, ROOT, Run, documents, names, patched, runs

OLDEST, NEWEST = "1.29", "1.37"
PAGE = "docs/kubernetes.md"
SECOND_STEP = re.compile(r"^sed '(.*)' (\S+) \| kubectl apply -f -$", re.MULTILINE)


def problems(document: dict[str, Any], version: str) -> list[str]:
    """What a Kubernetes of this version would refuse, unknown fields among it. The schemas lie in the package."""
    import kubernetes_validate

    try:
        kubernetes_validate.validate(document, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        return [error.message]
    return []


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("name", names())
def test_every_manifest_is_valid_for_kubernetes(name: str, version: str) -> None:
    found = documents(name)
    assert found
    assert [problems(document, version) for document in found] == [[]] * len(found)


@pytest.mark.parametrize(
    "break_it",
    [
        lambda job: job["spec"].update(backofLimit=0),
        lambda job: job["spec"]["template"]["spec"]["containers"][0].pop("name"),
        lambda job: job["spec"]["template"]["spec"]["containers"][0]["securityContext"].update(runAsUser="1000"),
        lambda job: job["spec"]["template"]["spec"]["volumes"][0].update(persistentVolumeClaim={"claim": "a"}),
        lambda job: job["spec"]["template"]["spec"]["securityContext"].update(readOnlyRootFilesystem=True),
    ],
)
def test_what_kubernetes_would_refuse_is_found(break_it: Callable[[dict[str, Any]], object]) -> None:
    (job,) = documents("rescue.yaml")
    broken = copy.deepcopy(job)
    break_it(broken)
    assert problems(broken, NEWEST) != []


def test_the_patch_adds_to_what_the_brokers_have() -> None:
    (brokers,) = documents(PATCH)
    pod = brokers["spec"]["template"]["spec"]
    assert [container["name"] for container in pod["containers"]] == ["kafka", "logcleaner"]
    assert [volume["name"] for volume in pod["volumes"]] == ["properties", "logcleaner"]
    assert patched({"a": 1, "b": [{"name": "c", "d": 1}]}, {"b": [{"name": "c", "e": 2}, {"name": "f"}]}) == {
        "a": 1,
        "b": [{"name": "c", "d": 1, "e": 2}, {"name": "f"}],
    }


@pytest.mark.parametrize("run", runs(), ids=lambda run: run.manifest)
def test_logcleaner_has_no_privilege(run: Run) -> None:
    """What the profile ``restricted`` of Kubernetes' pod security standards asks, and a read-only root."""
    own = run.container["securityContext"]
    assert own["allowPrivilegeEscalation"] is False
    assert own["readOnlyRootFilesystem"] is True
    assert own["capabilities"] == {"drop": ["ALL"]}
    assert run.of("runAsNonRoot") is True
    assert run.of("runAsUser") > 0
    assert run.of("seccompProfile") == {"type": "RuntimeDefault"}
    assert {"persistentVolumeClaim", "configMap"} >= {key for volume in run.pod["volumes"] for key in volume} - {"name"}


@pytest.mark.parametrize("run", runs(), ids=lambda run: run.manifest)
def test_a_manifest_changes_a_volume_only_as_the_owner_of_its_files(run: Run) -> None:
    written = [mount["name"] for mount in run.container["volumeMounts"] if not mount.get("readOnly")]
    assert not written or run.of("fsGroup") == run.of("runAsGroup")
    assert bool(written) == (run.manifest != PATCH)


@pytest.mark.parametrize("run", runs(), ids=lambda run: run.manifest)
def test_the_image_is_the_one_of_this_version(run: Run) -> None:
    assert run.container["image"] == f"registry.example.com/logcleaner:{__version__}"


def second_steps() -> list[tuple[str, list[str]]]:
    """Name of a manifest, and the arguments that the command of the page makes of its own, for the second step."""
    found = []
    for program, path in SECOND_STEP.findall((ROOT / PAGE).read_text("utf-8")):
        text = (ROOT / path).read_text("utf-8")
        for one in shlex.split(program.replace(";", " ")):
            _, old, new, _ = one.split("/")
            assert old in text, f"{path} has no {old}"
            text = re.sub(old, new, text)
        (job,) = yaml.safe_load_all(text)
        assert problems(job, NEWEST) == []
        found.append((path, job["spec"]["template"]["spec"]["containers"][0]["args"]))
    return found


def test_the_second_step_of_a_rescue_is_the_first_without_the_dry_run() -> None:
    steps = dict(second_steps())
    assert set(steps) == {f"docs/kubernetes/{name}" for name in names() if name.endswith("rescue.yaml")}
    first = {f"docs/kubernetes/{run.manifest}": run.arguments for run in runs()}
    for path, arguments in steps.items():
        assert [*arguments[:-1], "--dry-run"] == first[path]
        assert arguments[-1] == "--yes"


@pytest.mark.parametrize("run", runs(), ids=lambda run: run.manifest)
def test_every_command_is_one(run: Run) -> None:
    arguments = build_parser().parse_args(["--log-format", "auto", *run.arguments])
    assert arguments.command == run.arguments[0]
    in_container = {mount["mountPath"] for mount in run.container["volumeMounts"]}
    paths = [arguments.config, arguments.server_properties, *arguments.log_dir]
    for path in filter(None, paths):
        assert {str(parent) for parent in path.parents} & in_container, f"no volume holds {path}"


@pytest.mark.parametrize("run", runs(), ids=lambda run: run.manifest)
def test_every_variable_in_a_command_is_set(run: Run) -> None:
    used = set(re.findall(r"\$\((\w+)\)", " ".join(run.arguments)))
    assert used == {variable["name"] for variable in run.container.get("env", ())}


def test_the_probes_ask_the_port_on_which_the_configuration_listens() -> None:
    (config_map,) = documents("observe-config.yaml")
    ((name, text),) = config_map["data"].items()
    settings = parse_settings(text, MANIFESTS / name)
    (run,) = (run for run in runs() if run.manifest == PATCH)
    assert f"--config=/etc/logcleaner/{name}" in run.arguments
    assert settings.metrics_listen == f"0.0.0.0:{run.container['ports'][0]['containerPort']}"
    assert {run.container[f"{probe}Probe"]["httpGet"]["path"] for probe in ("startup", "liveness")} == {"/healthz"}
    assert run.container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert run.volume("logcleaner")["configMap"] == {"name": config_map["metadata"]["name"]}


def test_the_page_links_every_manifest_and_the_site_shows_it_as_it_is() -> None:
    text = (ROOT / PAGE).read_text("utf-8")
    assert sorted(re.findall(r"\]\((kubernetes/\S+)\)", text)) == [f"kubernetes/{name}" for name in names()]
    shown = re.findall(r"^```yaml\n(.*?)^```$", built(PAGE.rpartition("/")[2], text), re.MULTILINE | re.DOTALL)
    assert sorted(shown) == sorted((MANIFESTS / name).read_text("utf-8") for name in names())
