"""Address and login of the API: of a kubeconfig as kubectl reads it, or of the own pod.

The client's library differs from kubectl (seen with 37.0.2): of several files the last
one's current-context counts, a login program that fails is only logged and no login is
sent, a token keeps its newline, and its errors may repeat a file's content.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import re
import subprocess
import threading
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError, UsageError
from dbcheck.base.owners import expanded
from dbcheck.base.processes import make_environment
from dbcheck.config.target import KubernetesSettings

if TYPE_CHECKING:
    from kubernetes.client import ApiClient, Configuration

_OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_IN_POD = "KUBERNETES_SERVICE_HOST"  # set in every pod
TOKEN = "BearerToken"
_LOGIN_S = 180.0  # a person may have to confirm it in a browser
# https://kubernetes.io/docs/concepts/overview/working-with-objects/names/ (1.34)
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def configure(settings: KubernetesSettings, folder: str) -> tuple[Configuration, str]:
    """Return the client's configuration, and the namespace of the pods.

    folder: for certificates and keys, which the library takes from files only; the
    caller removes it.  Raise HostError, which repeats nothing of a kubeconfig.
    """
    from kubernetes import client

    path, configuration = _find_kubeconfig(settings), client.Configuration()
    # The library tries four times, and waits as long as a server asks it to.
    configuration.retries = False
    _limit_login_programs()
    with refuse_failed_login():
        if path:
            namespace = _read_kubeconfig(path, settings.context, configuration, folder)
        else:
            namespace = _read_own_account(configuration)
    _strip_token(configuration)
    _require_encryption(configuration)
    namespace = settings.namespace or namespace or "default"
    if not _NAMESPACE.fullmatch(namespace):  # ".." would ask for those of all
        raise HostError(
            f"{namespace!r} is not the name of a namespace",
            id=ErrorId.KUBECONFIG_INVALID,
            hint="Correct it in dbcheck_kubernetes, or in the kubeconfig's context.",
        )
    return configuration, namespace


def make_client(configuration: Configuration) -> ApiClient:
    """Make the library's client; raise HostError if it cannot use the proxy."""
    from kubernetes.client import ApiClient
    from urllib3.exceptions import HTTPError

    try:
        with warnings.catch_warnings(action="ignore"):  # of what is not installed
            return ApiClient(configuration)
    except (HTTPError, ImportError, AttributeError, TypeError, ValueError) as error:
        raise HostError(
            "the proxy of the kubeconfig, or of HTTPS_PROXY, cannot be used"
            f" ({type(error).__name__})",
            id=ErrorId.KUBECONFIG_INVALID,
            hint="Write it as http://HOST:PORT; for socks5://HOST:PORT install the"
            " package PySocks.",
        ) from None


def _require_encryption(configuration: Configuration) -> None:
    """Raise HostError if a login would be sent in clear.

    The library takes an address without a scheme for one with http, kubectl for https.
    """
    login = configuration.api_key or configuration.username or configuration.password
    scheme, separator, _ = str(configuration.host).partition("://")
    if scheme != "https" and (login or not separator):
        raise HostError(
            "the address of the API in the kubeconfig does not begin with https://",
            id=ErrorId.KUBECONFIG_INVALID,
            hint="Write it so, or the login would be sent without encryption.",
        )


def require_library() -> None:
    """Raise UsageError unless the client's library is installed; import nothing."""
    if importlib.util.find_spec("kubernetes") is None:
        raise UsageError(
            "dbcheck_kubernetes needs the package kubernetes, which is not installed",
            id=ErrorId.KUBERNETES_NOT_INSTALLED,
            hint='Install it: pip install "dbcheck[kubernetes]", or in a checkout pip'
            " install -r constraints/kubernetes.txt.",
        )


@contextlib.contextmanager
def refuse_failed_login() -> Iterator[None]:
    """Raise HostError if the library logs that a login program failed.

    It goes on without a login then, and the API answers 401.  What the program wrote is
    in that line of the log, so the line is not shown.
    """
    seen = _Errors()
    logging.root.addHandler(seen)
    try:
        yield
    finally:
        logging.root.removeHandler(seen)
    if seen.failed:
        raise HostError(
            "the program that the kubeconfig names for the login failed",
            id=ErrorId.KUBECONFIG_INVALID,
            hint="Run kubectl auth whoami with the same context: it shows why.",
        )


class _LoginProgram(subprocess.Popen[str]):
    """A program that logs in, without the secrets of others and with a limit of time.

    The library gives it the whole environment, and waits for its end for good.
    """

    def __init__(self, command: Any, env: Mapping[str, str], **more: Any) -> None:
        own = make_environment()
        kept = {k: v for k, v in env.items() if k in own or os.environ.get(k) != v}
        super().__init__(command, env=kept, **more)

    def communicate(
        self, input: str | None = None, timeout: float | None = None
    ) -> tuple[str, str]:
        """See subprocess.Popen; the program is ended after _LOGIN_S."""
        try:
            return super().communicate(input, _LOGIN_S)
        except subprocess.TimeoutExpired:
            with self:  # which waits for its end
                self.kill()
            raise


def _limit_login_programs() -> None:
    from kubernetes.config import exec_provider

    library: Any = exec_provider
    library.subprocess = SimpleNamespace(Popen=_LoginProgram, PIPE=subprocess.PIPE)


class _Errors(logging.Handler):
    """Notes whether the library logged an error in this thread."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.failed = False
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        """Note an error of the module exec_provider or kube_config."""
        if record.thread == self._thread and record.name == "root":
            self.failed = True


def _find_kubeconfig(settings: KubernetesSettings) -> str:
    """Return the paths that kubectl reads, "" for the account of the own pod."""
    if settings.kubeconfig is not None:
        return str(settings.kubeconfig)
    paths = os.environ.get("KUBECONFIG") or expanded("~/.kube/config")
    found = any(map(os.path.exists, paths.split(os.pathsep)))
    if not found and os.environ.get(_IN_POD) and not settings.context:
        return ""
    return paths


def _read_kubeconfig(
    paths: str, context: str, configuration: Configuration, folder: str
) -> str:
    """Fill *configuration*; return the context's namespace, "" if it has none."""
    from kubernetes import config

    kube: Any = config  # without types
    chosen, names = context or None, list[str]()
    try:
        chosen = context or _find_current_context(paths)
        listed = _read_files(paths)["contexts"]
        named = {str(each["name"]): each["context"] for each in listed}
        names = list(named)
        namespace = named[chosen].get("namespace") or ""
        kube.load_kube_config(
            paths,
            chosen,
            client_configuration=configuration,
            persist_config=False,
            temp_file_path=folder,
        )
        return str(namespace)
    except Exception as error:  # the library raises whatever a file provokes
        raise _make_error(paths, chosen, names, error) from None


def _find_current_context(paths: str) -> str:
    """Return the first file's current-context, as kubectl does.

    https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/
    (1.34): "The first file to set a particular value or map key wins."
    """
    for path in filter(os.path.exists, paths.split(os.pathsep)):
        if name := _read_files(path).get("current-context"):
            return str(name)
    return ""


def _read_files(paths: str) -> Mapping[str, Any]:
    """Return what is in a kubeconfig, with the lists of several files put together."""
    from kubernetes.config.kube_config import KubeConfigMerger

    merger: Any = KubeConfigMerger  # without types
    found: Mapping[str, Any] = merger(paths).config.value
    return {**found, "contexts": [each.value for each in found["contexts"]]}


def _make_error(
    paths: str, context: str | None, names: list[str], error: Exception
) -> HostError:
    """Return the error; context: "" if none is chosen, None if that is not known."""
    if not any(map(os.path.exists, paths.split(os.pathsep))):
        what = "does not exist"
    elif isinstance(error, OSError):
        what = f"cannot be read: {error.strerror}"
    elif context == "":
        what = "has no current-context"
    elif names and context not in names:
        what = f"has no context {context}, but {', '.join(names)}"
    else:
        what = f"cannot be used ({type(error).__name__})"
    return HostError(
        f"the kubeconfig {paths} {what}",
        id=ErrorId.KUBECONFIG_INVALID,
        hint="kubectl config get-contexts shows what it has; dbcheck_kubernetes may"
        " name another context, or another kubeconfig.",
    )


def _read_own_account(configuration: Configuration) -> str:
    """Fill *configuration*; return the namespace of the own pod."""
    from kubernetes import config

    kube: Any = config  # without types
    try:
        kube.load_incluster_config(configuration)
        return _OWN_NAMESPACE.read_text().strip()
    except Exception as error:  # ConfigException has no common base
        raise HostError(
            "there is no kubeconfig, and the service account of this pod cannot be"
            f" used ({type(error).__name__})",
            id=ErrorId.KUBECONFIG_INVALID,
            hint="Give the pod a serviceAccountName and automountServiceAccountToken:"
            " true.",
        ) from None


def _strip_token(configuration: Configuration) -> None:
    """Strip the token, which no header may hold with its newline, now and later."""
    refresh = configuration.refresh_api_key_hook

    def strip(changed: Configuration) -> None:
        if refresh is not None:
            refresh(changed)  # which sets the token, and this hook to what it was
            changed.refresh_api_key_hook = strip
        if token := changed.api_key.get(TOKEN):
            changed.api_key[TOKEN] = token.strip()

    strip(configuration)
