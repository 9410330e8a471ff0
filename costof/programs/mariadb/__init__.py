"""MariaDB in a lab, and any server that speaks MySQL's protocol as a target."""

from costof.lab.program import located
from costof.programs.mariadb.connection import MysqlLeftovers
from costof.programs.mariadb.lab import RELEASES, SysbenchServer, find_mariadbd, mariadbd_version
from costof.programs.mariadb.target import SysbenchTarget

__all__ = ["NEEDED", "RELEASES", "lab_server", "leftovers", "target_server"]

lab_server = SysbenchServer
target_server = SysbenchTarget
leftovers = MysqlLeftovers
NEEDED = {"mariadbd": located(find_mariadbd, mariadbd_version)}
