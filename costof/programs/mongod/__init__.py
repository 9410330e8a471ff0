"""MongoDB."""

from costof.programs.mongod.connection import SCHEMES as URL_SCHEMES
from costof.programs.mongod.connection import opened
from costof.programs.mongod.lab import ThreeMembers, mongod_here
from costof.programs.mongod.target import OwnMongodb

__all__ = ["NEEDED", "URL_SCHEMES", "lab_server", "opened", "own_server"]

lab_server = ThreeMembers
own_server = OwnMongodb
NEEDED = {"mongod": mongod_here}
