"""MariaDB, and any server of MySQL's protocol."""

from costof.lab.program import located
from costof.programs.mariadb.binary import find_mariadbd, mariadbd_version
from costof.programs.mariadb.leftovers import opened
from costof.programs.mariadb.own import OwnSysbench
from costof.programs.mariadb.sysbench import SysbenchServer
from costof.programs.mariadb.url import SCHEMES as URL_SCHEMES

__all__ = ["NEEDED", "URL_SCHEMES", "lab_server", "opened", "own_server"]

lab_server = SysbenchServer
own_server = OwnSysbench
NEEDED = {"mariadbd": located(find_mariadbd, mariadbd_version)}
