"""A broker that wants to know who writes: one listener for each way of it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from tests.cluster.servers.kafka import Kafka
from tests.cluster.servers.ports import reserve_port
from tests.kit.certificates import Authority
from tests.kit.deadlines import BUSY

REAUTHENTICATION_MS = 2000
"""After this time a client proves itself anew on the connection that it has, or loses it."""

_SASL = "org.apache.kafka.common.security"
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


class SecuredKafka(Kafka):
    """Beside the plain listener of every broker: SASL over TLS, TLS with certificates of both sides, and SASL in the
    clear, which knows one mechanism. Tokens are JWTs without a signature, as the broker takes them by default. It makes
    topics that nobody made."""

    USER = "kubedelta"
    PASSWORD = "hush"
    """Of the user with PLAIN. With SCRAM it is set, as an operator does it."""

    def __init__(self, folder: Path, build: Path, authority: Authority) -> None:
        self.authority = authority
        self.sasl = f"127.0.0.1:{reserve_port()}"
        self.mutual = f"127.0.0.1:{reserve_port()}"
        self.clear = f"127.0.0.1:{reserve_port()}"
        folder.mkdir(parents=True)
        certificate = authority.issue("broker")
        convert = ["openssl", "pkcs8", "-topk8", "-nocrypt", "-in", str(certificate.key)]
        key = subprocess.run(convert, check=True, capture_output=True).stdout
        self._keystore = folder / "keystore.pem"
        self._keystore.write_bytes(key + certificate.certificate.read_bytes())
        super().__init__(folder, build)

    def set_password(self, mechanism: str, password: str, user: str = USER) -> None:
        """For a SCRAM mechanism."""
        info = ScramCredentialInfo(ScramMechanism[mechanism.replace("-", "_")], 4096)
        change = UserScramCredentialUpsertion(user, info, password.encode())
        admin = self._admin()
        admin.alter_user_scram_credentials([change])[user].result(timeout=30 * BUSY)

    def _defaults(self, properties: Mapping[str, str]) -> dict[str, str]:
        listeners = {"SASL": self.sasl, "MUTUAL": self.mutual, "CLEAR": self.clear}
        settings = super()._defaults(properties)
        for name in ("listeners", "advertised.listeners"):
            settings[name] += "".join(f",{each}://{address}" for each, address in listeners.items())
        jaas = {
            "plain": f'{_SASL}.plain.PlainLoginModule required user_{self.USER}="{self.PASSWORD}";',
            "scram-sha-256": f"{_SASL}.scram.ScramLoginModule required;",
            "scram-sha-512": f"{_SASL}.scram.ScramLoginModule required;",
            "oauthbearer": f'{_SASL}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="me";',
        }
        return settings | {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_SSL,MUTUAL:SSL,"
            "CLEAR:SASL_PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "auto.create.topics.enable": "true",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._keystore),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.certificate),
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.sasl.connections.max.reauth.ms": str(REAUTHENTICATION_MS),
            "listener.name.sasl.sasl.enabled.mechanisms": ",".join(_MECHANISMS),
            "listener.name.clear.sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "listener.name.clear.scram-sha-256.sasl.jaas.config": jaas["scram-sha-256"],
            **{f"listener.name.sasl.{mechanism}.sasl.jaas.config": text for mechanism, text in jaas.items()},
        }
