"""The drivers and provisioners of Kubernetes, and what each keeps a volume on.

A name alone says little, so one that is not listed here is not known, and not safe.
"""

from __future__ import annotations

from collections.abc import Mapping

from dbcheck.audit.pods import (
    ASYNCHRONOUS,
    CLUSTER,
    DELAYED,
    FILE_SERVER,
    IGNORED,
    NODE_PATH,
    SENT,
    SERVICE,
    SWITCHED_OFF,
    SYNCHRONOUS,
    THIS_NODE,
)
from dbcheck.model.pods import PersistentVolume, StorageClass

_LONGHORN, _LINSTOR, _MAYASTOR, _PORTWORX, _TRIDENT = (
    "driver.longhorn.io",
    "linstor.csi.linbit.com",
    "io.openebs.csi-mayastor",
    "pxd.portworx.com",
    "csi.trident.netapp.io",
)
_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_KEEPERS = {  # of CSI drivers and provisioners
    THIS_NODE: f"{_NO_PROVISIONER} rancher.io/local-path openebs.io/local"
    " local.csi.openebs.io zfs.csi.openebs.io hostpath.csi.k8s.io topolvm.io"
    " topolvm.cybozu.com directpv-min-io docker.io/hostpath k8s.io/minikube-hostpath"
    " microk8s.io/hostpath",
    FILE_SERVER: "nfs.csi.k8s.io smb.csi.k8s.io cephfs.csi.ceph.com"
    " nfs.csi.ceph.com efs.csi.aws.com fsx.csi.aws.com fsx.openzfs.csi.aws.com"
    " file.csi.azure.com filestore.csi.storage.gke.io nfs.manila.csi.openstack.org"
    " cephfs.manila.csi.openstack.org nasplugin.csi.alibabacloud.com"
    " fss.csi.oraclecloud.com beegfs.csi.netapp.com csi.weka.io csi.juicefs.com"
    " kubernetes.io/azure-file kubernetes.io/glusterfs nfs-subdir-external-provisioner"
    " k8s-sigs.io/nfs-subdir-external-provisioner",
    CLUSTER: f"{_LONGHORN} {_LINSTOR} {_MAYASTOR} {_PORTWORX} rbd.csi.ceph.com"
    " replicated.csi.storage.deckhouse.io cstor.csi.openebs.io jiva.csi.openebs.io"
    " kubernetes.io/portworx-volume kubernetes.io/rbd driver.harvesterhci.io",
    SERVICE: "ebs.csi.aws.com disk.csi.azure.com pd.csi.storage.gke.io"
    " cinder.csi.openstack.org csi.vsphere.vmware.com csi.hetzner.cloud"
    " dobs.csi.digitalocean.com linodebs.csi.linode.com block.csi.vultr.com"
    " csi.scaleway.com diskplugin.csi.alibabacloud.com blockvolume.csi.oraclecloud.com"
    " vpc.block.csi.ibm.io kubernetes.io/aws-ebs kubernetes.io/azure-disk"
    " kubernetes.io/gce-pd kubernetes.io/cinder kubernetes.io/vsphere-volume",
}
_KEEPER_OF = {
    name: keeper for keeper, names in _KEEPERS.items() for name in names.split()
}
# Kinds of a PersistentVolume that is not of a CSI driver.
_KEEPER_OF_KIND = {
    "local": THIS_NODE,
    "nfs": FILE_SERVER,
    "cephfs": FILE_SERVER,
    "glusterfs": FILE_SERVER,
    "azureFile": FILE_SERVER,
    "rbd": CLUSTER,
    "portworxVolume": CLUSTER,
    "iscsi": SERVICE,
    "fc": SERVICE,
    "awsElasticBlockStore": SERVICE,
    "azureDisk": SERVICE,
    "gcePersistentDisk": SERVICE,
    "cinder": SERVICE,
    "vsphereVolume": SERVICE,
}
_PASSED_ON_AT_ONCE = ("none", "journal")  # IO profiles of Portworx


def name_driver(volume: PersistentVolume | None, made_by: StorageClass | None) -> str:
    """Return the CSI driver or provisioner of a volume, "" if it has none."""
    if volume is not None and volume.driver:
        return volume.driver
    return made_by.provisioner if made_by is not None else ""


def find_keeper(
    volume: PersistentVolume | None, made_by: StorageClass | None, *, shared: bool
) -> str | None:
    """Name the kind of storage that holds a volume's data; None if it is not known.

    shared: pods of any node may mount it.
    """
    driver = name_driver(volume, made_by)
    parameters = made_by.parameters if made_by is not None else {}
    if volume is not None and volume.kind == "hostPath":
        # A provisioner names the node in the volume that it makes, a human need not.
        made = driver not in ("", _NO_PROVISIONER)
        return _find_known(driver) if made else NODE_PATH
    if volume is not None and volume.kind in _KEEPER_OF_KIND:
        return _KEEPER_OF_KIND[volume.kind]
    if _is_of(driver, _TRIDENT):
        kind = parameters.get("backendType", "")
        return None if not kind else FILE_SERVER if "-nas" in kind else SERVICE
    keeper = _find_known(driver)
    if shared and keeper in (CLUSTER, SERVICE):
        # Several nodes cannot mount the filesystem of one block device: the storage
        # exports its files (Longhorn documentation, RWX volumes; Portworx, sharedv4).
        return keeper if parameters.get("migratable") == "true" else FILE_SERVER
    return keeper


def is_described(driver: str) -> bool:
    """Return True if the parameters of its storage class say what the driver keeps."""
    described = (_LONGHORN, _LINSTOR, _MAYASTOR, _PORTWORX)
    return any(_is_of(driver, name) for name in described)


def count_copies(driver: str, parameters: Mapping[str, str]) -> str:
    """Return the number of copies in a storage cluster, "" if nothing shows it.

    parameters: of the storage class.
    """
    if _is_of(driver, _LONGHORN):
        return parameters.get("numberOfReplicas", "")
    if _is_of(driver, _MAYASTOR) or _is_of(driver, _PORTWORX):
        return parameters.get("repl", "")
    if _is_of(driver, _LINSTOR):
        # linstor-csi, pkg/volume/parameter.go: NewParameters.
        own = _read_linstor_parameters(parameters)
        if nodes := own.get("nodelist", "").split():
            return str(len(nodes))
        return own.get("placementcount") or own.get("autoplace") or "1"
    return ""


def judge_flushes(driver: str, parameters: Mapping[str, str]) -> str | None:
    """Name what the driver does with a flush, such as SENT; "" if nothing shows it.

    None if a setting decides it which Kubernetes does not show.
    parameters: of the storage class.
    """
    if _is_of(driver, _LONGHORN):
        return "" if parameters.get("dataEngine", "v1") == "v2" else IGNORED
    if _is_of(driver, _PORTWORX):
        return _judge_portworx(parameters)
    if _is_of(driver, _LINSTOR):
        flushed = _read_drbd_option(parameters, "Disk/disk-flushes") != "no"
        return SENT if flushed else SWITCHED_OFF
    return ""


def judge_replication(driver: str, parameters: Mapping[str, str]) -> str:
    """Say if replicas have a write before it is acknowledged, "" if that is unknown.

    parameters: of the storage class.
    """
    if not _is_of(driver, _LINSTOR):
        return ""
    alone = _read_drbd_option(parameters, "Net/protocol") == "A"
    return ASYNCHRONOUS if alone else SYNCHRONOUS


def list_mount_options(
    volume: PersistentVolume | None, made_by: StorageClass | None
) -> tuple[str, ...]:
    """Return a volume's mount options, or those that its class gives to new ones."""
    options = volume.mount_options if volume is not None else ()
    if made_by is None:
        return options
    if volume is None:
        options = made_by.mount_options
    own = _read_linstor_parameters(made_by.parameters).get("mountopts", "")
    return (*options, own) if own and _is_of(made_by.provisioner, _LINSTOR) else options


def _find_known(driver: str) -> str | None:
    names = (name for name in _KEEPER_OF if _is_of(driver, name))
    return next((_KEEPER_OF[name] for name in names), None)


def _is_of(driver: str, name: str) -> bool:
    """Return True if *driver* is *name*, also with an operator's own words before it.

    Rook names its drivers so, e.g. "rook-ceph.rbd.csi.ceph.com", and a chart its
    provisioners, e.g. "cluster.local/nfs-subdir-external-provisioner".
    """
    return driver == name or driver.endswith((f".{name}", f"/{name}"))


def _judge_portworx(parameters: Mapping[str, str]) -> str | None:
    """Judge the flushes of a Portworx volume as judge_flushes() does.

    Portworx documentation, IO profiles: db_remote, and auto, take two copies or more.
    """
    profile, copies = parameters.get("io_profile", ""), parameters.get("repl", "")
    if profile in _PASSED_ON_AT_ONCE or copies == "1":
        return SENT
    named = profile in ("db_remote", "db", "auto")
    return DELAYED if named and copies else None


def _read_linstor_parameters(parameters: Mapping[str, str]) -> Mapping[str, str]:
    """Return LINSTOR's own parameters, whose names may have any case and no prefix."""
    return {
        name.removeprefix(f"{_LINSTOR}/").lower(): value
        for name, value in parameters.items()
        if "/" not in name or name.startswith(f"{_LINSTOR}/")
    }


def _read_drbd_option(parameters: Mapping[str, str], option: str) -> str:
    name = f"DrbdOptions/{option}"
    return parameters.get(f"property.{_LINSTOR}/{name}") or parameters.get(name, "")
