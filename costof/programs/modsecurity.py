"""nginx with ModSecurity and the OWASP core rule set, as a web application firewall in the lab."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from costof.errors import CostofError, ErrorText
from costof.lab.debian import FILES, Packages, fetched_folder
from costof.lab.host import Host
from costof.lab.lab import Lab, Process
from costof.lab.program import UNPACKED
from costof.programs.balancer import DESCRIPTORS, Entrance
from costof.programs.nginx import Nginx, find_nginx, modules_folder, nginx_version

NAME = "modsecurity"
MODULE = "ngx_http_modsecurity_module.so"
PACKAGES = ("nginx", "libnginx-mod-http-modsecurity", "modsecurity-crs")
#: The folder with the core rule set's rules, and the file with its settings, relative to where packages are unpacked.
RULES = Path("usr/share/modsecurity-crs/rules")
SETTINGS = Path("etc/modsecurity/crs/crs-setup.conf")
#: A file that names the core rule set's version in its first lines: 'OWASP ModSecurity Core Rule Set ver.3.3.4'.
FIRST_RULES = "REQUEST-901-INITIALIZATION.conf"
RULE_SET = "OWASP core rule set"
#: The largest request body that nginx keeps in memory, so that no body is written to a file.
BODY_BUFFER = "128k"

Engine = Literal["Off", "DetectionOnly", "On"]

# The settings that ModSecurity recommends (its file modsecurity.conf-recommended), without the Unicode map. They are
# written here because the packages have that file in different places. With these settings, the firewall parses JSON
# and XML bodies and refuses bodies that cannot be parsed. A body may have up to 13 MB, of which at most 128 KB may be
# something other than uploaded files. The bodies of text responses are inspected too.
RECOMMENDED = r"""
SecRequestBodyAccess On
SecRule REQUEST_HEADERS:Content-Type "^(?:application(?:/soap\+|/)|text/)xml" \
    "id:200000,phase:1,t:none,t:lowercase,pass,nolog,ctl:requestBodyProcessor=XML"
SecRule REQUEST_HEADERS:Content-Type "^application/json" \
    "id:200001,phase:1,t:none,t:lowercase,pass,nolog,ctl:requestBodyProcessor=JSON"
SecRequestBodyLimit 13107200
SecRequestBodyNoFilesLimit 131072
SecRequestBodyLimitAction Reject
SecRequestBodyJsonDepthLimit 512
SecArgumentsLimit 1000
SecRule REQBODY_ERROR "!@eq 0" "id:200002,phase:2,t:none,log,deny,status:400,msg:'The request body is invalid.'"
SecRule &ARGS "@ge 1000" "id:200007,phase:2,t:none,log,deny,status:400,msg:'The request has too many fields.'"
SecRule MULTIPART_STRICT_ERROR "!@eq 0" "id:200003,phase:2,t:none,log,deny,status:400,msg:'The upload is invalid.'"
SecRule MULTIPART_UNMATCHED_BOUNDARY "@eq 1" "id:200004,phase:2,t:none,log,deny,msg:'The upload may be incomplete.'"
SecRule TX:/^MSC_/ "!@streq 0" "id:200005,phase:2,t:none,deny,msg:'ModSecurity failed: %{MATCHED_VAR_NAME}'"
SecPcreMatchLimit 1000
SecPcreMatchLimitRecursion 1000
SecResponseBodyAccess On
SecResponseBodyMimeType text/plain text/html text/xml
SecResponseBodyLimit 524288
SecResponseBodyLimitAction ProcessPartial
SecArgumentSeparator &
SecCookieFormat 0
SecAuditEngine RelevantOnly
SecAuditLogRelevantStatus "^(?:5|4(?!04))"
SecAuditLogParts ABIJDEFHZ
SecAuditLogType Serial
"""


@dataclass(frozen=True)
class Installation:
    """The files of an installed firewall: nginx, its module for ModSecurity, and the core rule set."""

    nginx: Path
    module: Path
    rules: Path
    settings: Path


def find_installation() -> Installation:
    """Return the firewall that is installed, or else the one from `costof fetch`. Raises `FIREWALL_MISSING`.

    nginx and its module must be of the same build, so they are taken from the same place.
    """
    fetched = fetched_folder(NAME)
    places = [(fetched / "usr/sbin/nginx", fetched / FILES)]
    with suppress(CostofError):
        places.insert(0, (find_nginx(), Path("/")))
    absent: list[str] = []
    for nginx, root in places:
        folders = [nginx.parent, *modules_folder(nginx), UNPACKED] if nginx.is_file() else []
        module = next((folder / MODULE for folder in folders if (folder / MODULE).is_file()), Path(MODULE))
        found = Installation(nginx, module, root / RULES, root / SETTINGS)
        needed = (found.nginx, found.module, found.rules / FIRST_RULES, found.settings)
        missing = [str(path) for path in needed if not path.is_file()]
        if not missing:
            return found
        absent = absent or missing
    raise CostofError(ErrorText.FIREWALL_MISSING, detail=f"{absent[0]} was not found", packages=" ".join(PACKAGES))


def rules_version(rules: Path) -> str:
    """Return the version of the core rule set, such as '3.3.4'."""
    with (rules / FIRST_RULES).open() as lines:
        words = next((line.split() for line in lines if "ver." in line), ["?"])
    return next((word.removeprefix("ver.") for word in words if word.startswith("ver.")), "?")


def _described() -> str:
    found = find_installation()
    rules = f"core rule set {rules_version(found.rules)} in {found.rules}"
    return f"nginx {nginx_version(found.nginx)} at {found.nginx}, {found.module}, {rules}"


NEEDED = {NAME: _described}
FETCHABLE = [Packages(NAME, PACKAGES, ["usr/sbin/nginx"], [f"usr/lib/nginx/modules/{MODULE}"])]


@dataclass(frozen=True)
class Rules:
    """The configuration of a firewall: the mode of its engine (`SecRuleEngine`), its paranoia level, and directives.

    nginx reads the directives `before` before `RECOMMENDED`, and the directives `after` after the core rule set.
    """

    engine: Engine
    paranoia: int = 1
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The mode and the paranoia level, such as 'on-1'. Rules with different directives may have the same name."""
        return f"{self.engine.lower()}-{self.paranoia}"


class ModSecurityNginx(Nginx):
    """An nginx process with ModSecurity and the core rule set or, if `rules` is None, without both."""

    role = Nginx.name

    def __init__(
        self, name: str, rules: Rules | None, lab: Lab, host: Host, address: str, entrances: Sequence[Entrance]
    ) -> None:
        super().__init__(lab, host, address, entrances, ca_file=lab.folder / "none")
        self.name = name
        self._rules_version = ""
        self._rules = rules

    @property
    def entry(self) -> str:
        return f"{self.address}:{self._entrances[0].port}"

    @property
    def process(self) -> Process | None:
        return self._process

    @property
    def versions(self) -> dict[str, str]:
        """The version of nginx and, with the module, the version of the core rule set."""
        return {Nginx.name: self.version} | ({RULE_SET: self._rules_version} if self._rules_version else {})

    def logged_bytes(self) -> int:
        """Return the length in bytes of the module's log of requests that matched a rule; 0 without the module."""
        return self._audit_log.stat().st_size if self._rules else 0

    def logged(self, start: int) -> str:
        """Return what has been logged from the byte `start` on."""
        if not self._rules:
            return ""
        with self._audit_log.open("rb") as log:
            log.seek(start)
            return log.read().decode(errors="replace")

    def why_dead(self) -> str | None:
        return self._process.why_dead(self.name) if self._process else None

    def facts(self) -> dict[str, str]:
        return {
            Nginx.name: f"1 process, 1 core, worker_connections {DESCRIPTORS:,}, no access log, request bodies of "
            f"up to {BODY_BUFFER} in memory",
            "ModSecurity": "its recommended settings (modsecurity.conf-recommended), responses inspected too, a log of "
            "requests that match a rule",
        }

    def _find(self) -> Path:
        found = find_installation()
        if self._rules is not None:
            self._modules = [found.module]
            self._rules_version = rules_version(found.rules)
            self._rules_file.write_text(self._directives(self._rules, found))
        return found.nginx

    @property
    def _rules_file(self) -> Path:
        return self._folder / "rules.conf"

    @property
    def _audit_log(self) -> Path:
        return self._folder / "audit.log"

    def _directives(self, rules: Rules, found: Installation) -> str:
        paranoia = f"setvar:tx.paranoia_level={rules.paranoia}"
        return "\n".join(
            [
                f"SecRuleEngine {rules.engine}",
                *rules.before,
                RECOMMENDED,
                f"SecAuditLog {self._audit_log}",
                f"Include {found.settings}",
                f'SecAction "id:900000,phase:1,nolog,pass,t:none,{paranoia}"',
                f"Include {found.rules}/*.conf",
                *rules.after,
                "",
            ]
        )

    def _server_options(self) -> list[str]:
        # The buffer has the same size with and without inspection: nginx always reads the whole body before it asks the
        # origin. The directives apply only to the port for clients: the rules would block the lab's own status
        # requests.
        inspection = ["modsecurity on;", f"modsecurity_rules_file {self._rules_file};"] if self._rules else []
        return [f"client_body_buffer_size {BODY_BUFFER};", *inspection]
