"""MongoDB."""

from costof.programs.mongod.connection import MongodbLeftovers
from costof.programs.mongod.lab import ThreeMembers, mongod_here
from costof.programs.mongod.target import MongodbTarget

__all__ = ["NEEDED", "lab_server", "leftovers", "target_server"]

lab_server = ThreeMembers
target_server = MongodbTarget
leftovers = MongodbLeftovers
NEEDED = {"mongod": mongod_here}
