"""MariaDB in a lab, and a user's own MySQL or MariaDB server as a target."""

from costof.lab.debian import Packages
from costof.lab.program import located
from costof.programs.mariadb.connection import MysqlLeftovers
from costof.programs.mariadb.lab import SysbenchServer
from costof.programs.mariadb.target import SysbenchTarget
from costof.programs.mariadb.versions import PACKAGE, RELEASES, find_mariadbd, mariadbd_version

__all__ = ["FETCHABLE", "NEEDED", "RELEASES", "lab_server", "leftovers", "target_server"]

lab_server = SysbenchServer
target_server = SysbenchTarget
leftovers = MysqlLeftovers
NEEDED = {"mariadbd": located(find_mariadbd, mariadbd_version)}
# The second package contains the plug-ins for client_ed25519, encryption at rest and audits.
FETCHABLE = [Packages("mariadbd", [PACKAGE, "mariadb-server"], ["usr/sbin/mariadbd"])]
