"""MongoDB."""

from costof.programs.mongod.connection import MongodbLeftovers
from costof.programs.mongod.lab import ThreeMembers, mongod_here
from costof.programs.mongod.target import OwnMongodb

__all__ = ["NEEDED", "lab_server", "leftovers", "own_server"]

lab_server = ThreeMembers
own_server = OwnMongodb
leftovers = MongodbLeftovers
NEEDED = {"mongod": mongod_here}
