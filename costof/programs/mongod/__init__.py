"""MongoDB in a lab, and a user's own MongoDB as a target."""

from costof.programs.mongod.connection import MongodbLeftovers
from costof.programs.mongod.lab import PinnedMongod, ThreeMemberServer, describe_mongod
from costof.programs.mongod.target import MongodbTarget

__all__ = ["FETCHABLE", "NEEDED", "lab_server", "leftovers", "target_server"]

lab_server = ThreeMemberServer
target_server = MongodbTarget
leftovers = MongodbLeftovers
NEEDED = {"mongod": describe_mongod}
FETCHABLE = [PinnedMongod()]
