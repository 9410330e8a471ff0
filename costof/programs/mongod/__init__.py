"""MongoDB."""

from costof.programs.mongod.binary import mongod_here
from costof.programs.mongod.leftovers import opened
from costof.programs.mongod.own import OwnMongodb
from costof.programs.mongod.three_members import ThreeMembers
from costof.programs.mongod.url import SCHEMES as URL_SCHEMES

__all__ = ["NEEDED", "URL_SCHEMES", "lab_server", "opened", "own_server"]

lab_server = ThreeMembers
own_server = OwnMongodb
NEEDED = {"mongod": mongod_here}
