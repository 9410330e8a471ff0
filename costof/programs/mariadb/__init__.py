"""MariaDB, and any server of MySQL's protocol."""

from costof.lab.program import located
from costof.programs.mariadb.connection import SCHEMES as URL_SCHEMES
from costof.programs.mariadb.connection import opened
from costof.programs.mariadb.lab import SysbenchServer, find_mariadbd, mariadbd_version
from costof.programs.mariadb.target import OwnSysbench

__all__ = ["NEEDED", "URL_SCHEMES", "lab_server", "opened", "own_server"]

lab_server = SysbenchServer
own_server = OwnSysbench
NEEDED = {"mariadbd": located(find_mariadbd, mariadbd_version)}
