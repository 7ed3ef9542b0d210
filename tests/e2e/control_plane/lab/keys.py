"""Certificates, keys, tokens and kubeconfigs of one control plane.

Rule: everything is made at run time in the control plane's folder.
"""

import base64
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from tests.fakes.certificates import Certificates

ADMIN = "admin"
SCHEDULER = "system:kube-scheduler"
CONTROLLER_MANAGER = "system:kube-controller-manager"


class Keys:
    """CA, server certificate, client certificates, service account keys and static tokens in `directory`."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._directory = directory
        self._certificates = Certificates(directory)
        self.ca_file = self._certificates.ca_file
        self.server = self._certificates.server("kube-apiserver")
        self.service_account_key = directory / "service-account.key"
        self.service_account_public_key = directory / "service-account.pub"
        key = ec.generate_private_key(ec.SECP256R1())
        self.service_account_key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        self.service_account_public_key.write_bytes(public)
        self.token_file = directory / "tokens.csv"
        self.token_file.write_text(f'{ADMIN}-token,{ADMIN},1,"system:masters"\n{SCHEDULER}-token,{SCHEDULER},2\n')

    @staticmethod
    def token(user: str) -> str:
        """Return the static token of ADMIN or SCHEDULER."""
        return f"{user}-token"

    def kubeconfig(self, name: str, url: str, user: dict[str, Any], *, inline_ca: bool = True) -> Path:
        """Write a kubeconfig for `url` with the credentials `user`, as users[].user has them."""
        ca = {"certificate-authority-data": encoded(self.ca_file)} if inline_ca else {}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "e2e", "cluster": {"server": url} | (ca or self._ca_file())}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": name}}],
            "current-context": "e2e",
        }
        path = self._directory / f"{name.replace(':', '-')}.kubeconfig"
        path.write_text(yaml.safe_dump(content))
        return path

    def client_certificate(self, user: str) -> dict[str, str]:
        """Return kubeconfig credentials with a new client certificate of `user`."""
        pair = self._certificates.client_with(user.replace(":", "-"), common_name=user)
        return {"client-certificate-data": encoded(pair.certificate), "client-key-data": encoded(pair.key)}

    def _ca_file(self) -> dict[str, str]:
        return {"certificate-authority": str(self.ca_file)}


def encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
