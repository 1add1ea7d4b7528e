"""The manifests of container/kubernetes: what must hold so that nothing cuts twice.

real/project/test_kubernetes_job.py applies them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

import dbcheck

FOLDER = Path(dbcheck.__file__).resolve().parent.parent / "container" / "kubernetes"
IMAGE = "registry.example.net/{}:1"


def read(name: str, kind: str) -> dict[str, Any]:
    """Return the object of that kind in a file."""
    objects = yaml.safe_load_all((FOLDER / name).read_text())
    (found,) = (each for each in objects if each["kind"] == kind)
    return dict(found)


JOBS = {
    "job.yaml": read("job.yaml", "Job")["spec"],
    "cronjob.yaml": read("cronjob.yaml", "CronJob")["spec"]["jobTemplate"]["spec"],
}
WITNESS = read("witness.yaml", "StatefulSet")["spec"]
PODS = {
    **{name: job["template"]["spec"] for name, job in JOBS.items()},
    "shell.yaml": read("shell.yaml", "Pod")["spec"],
    "witness.yaml": WITNESS["template"]["spec"],
}


@pytest.mark.parametrize("name", JOBS)
def test_a_job_never_makes_a_second_pod(name: str) -> None:
    job = JOBS[name]
    assert job["backoffLimit"] == 0
    assert job["podReplacementPolicy"] == "Failed"
    assert job["template"]["spec"]["restartPolicy"] == "Never"
    assert "activeDeadlineSeconds" not in job
    assert "activeDeadlineSeconds" not in job["template"]["spec"]
    actions = [rule["action"] for rule in job["podFailurePolicy"]["rules"]]
    assert actions == ["FailJob"]


def test_two_checks_never_run_at_once_and_none_begins_unasked() -> None:
    spec = read("cronjob.yaml", "CronJob")["spec"]
    assert spec["concurrencyPolicy"] == "Forbid"
    assert spec["suspend"] is True
    assert spec["startingDeadlineSeconds"] <= 3600
    args = PODS["cronjob.yaml"]["containers"][0]["args"]
    assert "--yes" not in args  # nobody has agreed to the first cut of a node


def test_the_time_to_end_is_enough_to_give_the_power_back() -> None:
    for name in JOBS:
        assert PODS[name]["terminationGracePeriodSeconds"] >= 15 + 3 * 60


def rest_of(name: str) -> dict[str, Any]:
    """Return a pod without what it is for."""
    pod = dict(PODS[name])
    del pod["terminationGracePeriodSeconds"]
    (container,) = pod["containers"]
    own = ("args", "command", "image", "resources")
    pod["containers"] = {k: v for k, v in container.items() if k not in own}
    return pod


def test_the_pods_of_dbcheck_differ_only_in_what_they_are_for() -> None:
    assert rest_of("cronjob.yaml") == rest_of("job.yaml")
    assert rest_of("shell.yaml") == rest_of("job.yaml")


@pytest.mark.parametrize("name", PODS)
def test_no_pod_is_on_a_node_of_the_database(name: str) -> None:
    rules = PODS[name]["affinity"]["podAntiAffinity"]
    (rule,) = rules["requiredDuringSchedulingIgnoredDuringExecution"]
    assert rule["topologyKey"] == "kubernetes.io/hostname"
    every = PODS["job.yaml"]["affinity"]
    assert PODS[name]["affinity"] == every


@pytest.mark.parametrize("name", PODS)
def test_a_pod_may_do_no_more_than_an_ordinary_user(name: str) -> None:
    pod = PODS[name]
    assert pod["securityContext"]["runAsNonRoot"] is True
    (container,) = pod["containers"]
    closed = container["securityContext"]
    assert closed["capabilities"] == {"drop": ["ALL"]}
    assert not closed["allowPrivilegeEscalation"]
    assert closed["readOnlyRootFilesystem"]
    assert {"requests", "limits"} <= container["resources"].keys()
    given = container.get("env", [])
    assert all("password" not in str(each).lower() for each in given)


@pytest.mark.parametrize("name", PODS)
def test_the_user_of_a_pod_has_an_account_and_a_group_of_its_own(name: str) -> None:
    """Whatever the image says, as files of the ConfigMap are mounted over its own."""
    pod = PODS[name]
    (container,) = pod["containers"]
    mounted = {each["mountPath"]: each for each in container["volumeMounts"]}
    volumes = {each["name"]: each for each in pod["volumes"]}
    for file in ("passwd", "group"):
        mount = mounted[f"/etc/{file}"]
        assert mount["subPath"] == file
        assert volumes[mount["name"]]["configMap"] == {"name": "dbcheck-inventory"}
    user = "witness" if name == "witness.yaml" else "dbcheck"
    number = str(pod["securityContext"]["runAsUser"])
    lines = (FOLDER / "passwd").read_text().splitlines()
    accounts = [line.split(":") for line in lines]
    assert {each[0]: each[2:4] for each in accounts}[user] == [number, number]
    assert f"dbcheck:x:{number}:\n" in (FOLDER / "group").read_text()
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsUser"]


def test_the_acks_are_on_a_claim_of_their_own() -> None:
    (claim,) = WITNESS["volumeClaimTemplates"]
    (container,) = WITNESS["template"]["spec"]["containers"]
    mounted = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert mounted[claim["metadata"]["name"]] == "/home/witness/acks"
    assert claim["spec"]["storageClassName"]
    assert WITNESS["replicas"] == 1


def names() -> Iterator[tuple[str, str]]:
    """Yield the images that the objects name, after kustomization.yaml."""
    (kustomization,) = yaml.safe_load_all((FOLDER / "kustomization.yaml").read_text())
    images = {each["name"]: each for each in kustomization["images"]}
    for name, pod in PODS.items():
        (container,) = pod["containers"]
        image = container["image"]
        if found := images.get(image):
            image = f"{found['newName']}:{found['newTag']}"
        yield name, image


def test_each_object_has_the_image_that_is_named_once() -> None:
    assert dict(names()) == {
        "job.yaml": IMAGE.format("dbcheck"),
        "cronjob.yaml": IMAGE.format("dbcheck"),
        "shell.yaml": IMAGE.format("dbcheck"),
        "witness.yaml": IMAGE.format("dbcheck-witness"),
    }
