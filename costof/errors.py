"""Everything `costof` can complain of, in one place: what went wrong, and what to do next.

A `Problem` ends the command; a `Caution` is carried in the result and shown beside the figures. Both are templates,
so that a message cannot be worded in two ways, and none holds a secret: what is shown of a URL is built from its parts.

Long: a list.
"""

from __future__ import annotations

import re
from enum import Enum

EXIT_ANSWERED = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_PARTIAL = 3
EXIT_EXCEEDED = 4


class Problem(Enum):
    """(exit status, what is wrong and what to do)."""

    UNKNOWN_STUDY = (EXIT_USAGE, "there is no study '{name}'{nearest}; `costof list` shows them all")
    BROKEN_STUDY = (EXIT_USAGE, "the study file {path} is not valid: {detail}")
    UNKNOWN_FACTOR = (EXIT_USAGE, "'{name}' is no factor of {study}{nearest}; it has: {allowed}")
    UNKNOWN_LEVEL = (EXIT_USAGE, "'{level}' is no level of {factor}; choose from: {allowed}")
    LAB_ONLY_FACTOR = (EXIT_USAGE, "{factor} can be varied in a lab only; a target's servers are taken as they are")
    LEVEL_APPLIES_NOWHERE = (EXIT_USAGE, "{factor} applies only with {condition}, which no arm of this run has")
    NOT_AN_ASSIGNMENT = (EXIT_USAGE, "'{text}' is not factor=level[,level…], as in --set transport=plain,tls")
    BAD_NUMBER = (EXIT_USAGE, "{name} must be a whole number from {low} to {high}, not '{text}'")
    BAD_DURATION = (EXIT_USAGE, "'{text}' is no duration; write it as 45s, 5m or 1h30m")
    BAD_PRECISION = (EXIT_USAGE, "'{text}' is no precision; write a percentage above 0, such as 2%")
    UNKNOWN_METRIC = (EXIT_USAGE, "'{name}' is no metric of {study}{nearest}; it has: {allowed}")
    BAD_LIMIT = (EXIT_USAGE, "'{text}' is no limit for '{metric}'; write it as {example}")
    NOT_A_COMMAND = (EXIT_USAGE, "the command '{text}' cannot be run: {detail}")
    SHELL_SIGN = (
        EXIT_USAGE,
        "'{text}' runs without a shell and holds '{sign}', which only a shell understands; {remedy}, or {otherwise}",
    )
    UNKNOWN_WORD = (
        EXIT_USAGE,
        "'{text}' holds {{{word}}}, which a level of some arm does not set{nearest}; write {{{{{word}}}}} for the very "
        "signs",
    )
    TOO_FEW_COMMANDS = (EXIT_USAGE, "give two commands or more, each in quotes: costof versus 'sleep 0.1' 'sleep 0.2'")
    NAMES_OF_COMMANDS = (EXIT_USAGE, "{names} different names for {commands} commands; give each one its own -n")
    UNKNOWN_READER = (EXIT_USAGE, "there is no reader '{name}'{nearest}; choose from: {allowed}")
    UNKNOWN_CLIENT = (EXIT_USAGE, "there is no client '{name}'{nearest}; choose from: {allowed}")
    CLIENT_OF_OTHERS = (EXIT_USAGE, "{client} is a client of {of}, and {study} asks {service}")
    CLIENT_WITHOUT_LOAD = (
        EXIT_USAGE,
        "{client} goes as fast as it can, which is no load of so many connections a second; leave out --load or "
        "--client",
    )
    BAD_RATE = (EXIT_USAGE, "'{text}' is no load; write 300/s, 90/min or 5000/h")
    BAD_TIME = (EXIT_USAGE, "'{text}' is no time to think; write 20ms or 2s, up to an hour")
    LOAD_SAID_BY_HALF = (EXIT_USAGE, "{option} does not say how much is asked; add {other}")
    LOAD_SAID_TWICE = (EXIT_USAGE, "{option} says of a load what {other} says otherwise; leave out one of them")
    NO_LOAD = (
        EXIT_USAGE,
        "clients of {study} open no new connections; say over how many standing ones their operations go: --pool 8",
    )
    NO_RATE = (
        EXIT_USAGE,
        "{study} asks commands, and none of them can be told {option}; where one takes a rate, write {{rate}} in its "
        "line and say --load 300/s",
    )
    RATE_WITHOUT_LOAD = (EXIT_USAGE, "the commands of {study} are told a rate; say it: --load 300/s")
    NO_LIMITS = (EXIT_USAGE, "{path} was run without limits; say one: --limit METRIC LIMIT")
    ROUNDS_ARE_EXACT = (EXIT_USAGE, "--rounds says exactly when a run ends; leave out {options}, or --rounds")
    RESTARTS_ARE_EXACT = (
        EXIT_USAGE,
        "--restarts says how many starts a run has, however precise; leave out --precision",
    )
    RESTARTS_OF_TARGET = (
        EXIT_USAGE,
        "--restarts starts the lab's servers anew, and a target's are nobody's to restart; leave out --restarts, or "
        "--target",
    )
    UNKNOWN_PROFILE = (EXIT_USAGE, "{study} has no profile '{name}'; choose from: {allowed}")
    OUTPUT_NOT_WRITABLE = (EXIT_FAILED, "cannot write to {path}: {detail}; choose another folder with --out")
    FILE_NOT_WRITABLE = (EXIT_FAILED, "cannot write {path}: {detail}; name another file")
    FILE_EXISTS = (EXIT_FAILED, "{path} is there already; name another file")
    NOT_A_STUDY_FILE = (EXIT_USAGE, "a study's file ends with .toml, and {path} does not")
    NO_BROWSER = (
        EXIT_FAILED,
        "--pdf is printed by a browser, and none of {names} is on PATH; install one (apt-get install chromium), or "
        "print report.html from the one that you have",
    )
    NOT_PRINTED = (EXIT_FAILED, "{browser} has not printed {path}: {detail}; print report.html from a browser")
    NEEDS_EXPORT = (EXIT_FAILED, "--to {form} needs {library}: pip install 'costof[export]'")
    OUTPUT_EXISTS = (EXIT_FAILED, "{path} already holds something; choose another folder with --out")
    NOT_A_RUN = (EXIT_USAGE, "{path} is not the folder of a run: {detail}")
    NO_RUNS = (EXIT_USAGE, "{path} holds no runs{detail}; name the folder that their folders are in, such as runs")
    OTHER_STUDY = (
        EXIT_USAGE,
        "{first} asked {asked} and {second} asked {other}; costs are compared between two runs of one study",
    )
    SEVERAL_STUDIES = (EXIT_USAGE, "{path} holds runs of {studies}; say which with --study")
    OTHER_LEDGER = (
        EXIT_FAILED,
        "{path} was written by another version of costof (ledger {found}, this one reads {known}); read its "
        "report.html, or make the run again",
    )
    NOTHING_MEASURED = (EXIT_FAILED, "nothing was measured: {detail}")
    ENGINE_MISSING = (
        EXIT_FAILED,
        "no costof-engine to measure with ({detail}); run `make setup`, reinstall the wheel, or set COSTOF_ENGINE to "
        "its path",
    )
    TLS_LIBRARY_MISSING = (
        EXIT_FAILED,
        "no costof-engine is built with the TLS library {library}; `make tls-libraries` builds it, in the sources of "
        "costof",
    )
    OTHER_TLS_LIBRARY = (
        EXIT_FAILED,
        "the costof-engine that is to run the TLS library {library} says that it runs {found}; build it anew: "
        "`make tls-libraries`",
    )
    INSTRUMENT_FAILED = (EXIT_FAILED, "{instrument} stopped: {detail}")
    MONGOD_MISSING = (
        EXIT_FAILED,
        "no mongod to run the lab with ({detail}); install one, or set COSTOF_MONGOD to its path",
    )
    PROGRAM_MISSING = (
        EXIT_FAILED,
        "no {program} to run the lab with ({detail}); install it (Debian: apt-get install {package}), "
        "or set {variable} to its path",
    )
    NOT_FETCHED = (EXIT_FAILED, "cannot fetch {program}: {detail}")
    NEEDS_ROOT = (EXIT_FAILED, "{what} needs root: {detail}; run costof as root, or leave it out")
    LAB_FAILED = (EXIT_FAILED, "the lab did not start: {detail}")
    NOTHING_TO_COMPARE = (
        EXIT_USAGE,
        "the levels asked for leave only the control ({control}): add one to compare it with",
    )
    ARMS_CANNOT_RUN = (EXIT_FAILED, "no arm can run: {detail}")
    BAD_TARGET = (EXIT_USAGE, "that URL is no target for {study}: {detail}")
    PASSWORD_MISSING = (
        EXIT_USAGE,
        "{target} names a user and no password is given; say --password-file or --ask-password, or set COSTOF_PASSWORD",
    )
    PASSWORD_TWICE = (EXIT_USAGE, "the password is given twice, by {ways}; give it once")
    PASSWORD_FILE = (EXIT_USAGE, "cannot take the password from {path}: {detail}; it holds one line, the password")
    PASSWORD_VARIABLE = (EXIT_USAGE, "what {name} holds is no UTF-8")
    TARGET_OPTION_UNUSED = (
        EXIT_USAGE,
        "{option} goes with --target mongodb://… or mysql://…; give that too, or leave it out",
    )
    BAD_SERVER_CPU = (EXIT_USAGE, "--server-cpu '{text}' is no command: {detail}")
    SERVER_CPU_UNREAD = (
        EXIT_FAILED,
        "--server-cpu {program}: {detail}; it must print the seconds of CPU time that the servers have used so far",
    )
    PLAIN_NOT_ALLOWED = (
        EXIT_USAGE,
        "TLS is asked of {target}, and {arms} would log in without: say --allow-plain to have that measured too, or "
        "--set {factor}={protected} to have figures of TLS alone",
    )
    BAD_DATABASE = (
        EXIT_USAGE,
        "'{name}' is no name for a database of costof's; take up to {most} letters, digits and _, a letter first, and "
        "none of the server's own",
    )
    PRIVILEGES_MISSING = (
        EXIT_FAILED,
        "{account} may not {actions} in {database} on {target}; nothing was written. Somebody who may grant it says: "
        "{grant}",
    )
    NO_SERVICE = (EXIT_USAGE, "the study asks for the {what} '{name}', which costof does not know")
    NO_SUCH_SETTING = (EXIT_USAGE, "the study asks of its service what {protocol} cannot be asked: {detail}")
    NO_TARGET = (EXIT_USAGE, "{study} says itself what its commands are run against: leave --target out")
    NO_OWN_SERVER = (EXIT_USAGE, "{program} can be asked in a lab only: leave --target out")
    NO_ENTRANCE_TO_TARGET = (
        EXIT_USAGE,
        "{levels} can be had in a lab only: costof puts neither a tunnel nor a pool before your servers; "
        "say --set {factor}={rest}, and --pooler URL where a pool of your own stands",
    )
    OWN_ONLY_LEVEL = (
        EXIT_USAGE,
        "{factor}={levels} asks a pool of your own: say where it is, --target URL --pooler URL, or choose others",
    )
    POOLER_UNUSED = (EXIT_USAGE, "{study} asks through no pool; leave out --pooler, or ask postgres-pooling")
    NO_POOLER = (
        EXIT_FAILED,
        "{pooler} is no pool before {target}: {detail}",
    )
    NO_BALANCER_OF_TARGET = (
        EXIT_USAGE,
        "termination {levels} can be had in a lab only: of your servers costof knows the balancer alone; "
        "say --set termination={rest}",
    )
    PLAIN_TARGET_MISSING = (
        EXIT_USAGE,
        "the control of {study} is plain HTTP: say with --plain-target http://… where your balancer takes it",
    )
    PLAIN_TARGET_UNUSED = (
        EXIT_USAGE,
        "--plain-target goes with the --target of a study of HTTP; give that too, or leave it out",
    )
    TARGET_UNREACHABLE = (EXIT_FAILED, "cannot reach {target}: {detail}")
    TARGET_REFUSES_LOGIN = (EXIT_FAILED, "{target} refuses the user or the password: {detail}")
    TARGET_FAILED = (EXIT_FAILED, "{target}: {detail}")
    TARGET_OCCUPIED = (
        EXIT_FAILED,
        "the database '{database}' on {target} {what}; nothing was touched. Take another with --database; "
        "`costof clean --target …` lists and removes what a killed run has left",
    )
    NO_REPLICA_SET = (EXIT_FAILED, "{target} is no replica set, so nothing is replicated; name one")
    TLS_CA_INVALID = (EXIT_FAILED, "{path} is no CA file: {detail}; --tls-ca wants certificates in PEM")
    AB_URL = (EXIT_USAGE, "that is no URL to ask ({detail}); write it as http://shop.example/path")
    AB_CONCURRENCY = (
        EXIT_USAGE,
        "cannot use concurrency level greater than total number of requests; raise -n or lower -c",
    )
    AB_HEADER = (EXIT_USAGE, "{text} is no header; write it as -H 'Name: value', on one line")
    AB_POST = (
        EXIT_USAGE,
        "costof ab sends GET requests and no body (-p); have ab itself send them: costof versus --read ab "
        "'ab -p FILE -T TYPE -n 1000 URL' 'ab -p FILE -T TYPE -n 1000 OTHER_URL'",
    )
    AB_UNANSWERED = (EXIT_FAILED, "cannot ask {url}: {detail}")
    YCSB_FILE_UNREADABLE = (
        EXIT_USAGE,
        "cannot read {path}: {detail}; -P wants a property file, or one of workloada to workloadf, which are built in",
    )
    YCSB_NOT_A_PROPERTY = (EXIT_USAGE, "-p wants name=value, as in -p recordcount=1000")
    YCSB_BAD_PROPERTY = (EXIT_USAGE, "{name} must be {allowed}")
    YCSB_NEEDS = (EXIT_USAGE, "{what} is missing; give it with -p {option}")
    YCSB_NAMES_OF_GO = (EXIT_USAGE, "go-ycsb's names are not known here: instead of {names} write {instead}")
    YCSB_TABLE_OCCUPIED = (
        EXIT_FAILED,
        "{table} on {target} holds records already, and nothing was written; load into an empty one, "
        "or say where to go on with -p insertstart=N",
    )
    YCSB_TABLE_EMPTY = (EXIT_FAILED, "{table} on {target} holds no records; load some first with costof ycsb load")
    YCSB_TABLE_MISSING = (EXIT_FAILED, "there is no {table} on {target}; as YCSB wants it, make it with: {statement}")
    GATEWAY_ADDRESS = (EXIT_USAGE, "'{text}' is no address to listen on; write it as 127.0.0.1:3307")
    GATEWAY_LEARN = (EXIT_USAGE, "--learn and --learn-account work only together; add the other one")
    GATEWAY_REFUSED = (EXIT_USAGE, "the gateway does not start: {detail}")
    TPCC_UNSOUND = (
        EXIT_FAILED,
        "the data loaded into {where} is not TPC-C's ({detail}); start again, and if it stays so, look for what else "
        "writes there",
    )
    HOSTS_OPTION_UNUSED = (
        EXIT_USAGE,
        "{option} goes with --hosts auto or ray://host:10001; give that too, or leave it out",
    )
    HOSTS_ADDRESS = (
        EXIT_USAGE,
        "'{text}' is no Ray cluster; say auto on one of its machines, or ray://host:10001 from elsewhere",
    )
    HOSTS_LABEL = (EXIT_USAGE, "'{text}' is no label of a host; write it as pool=load, as ray start --labels has it")
    HOSTS_NEED_TARGET = (
        EXIT_USAGE,
        "--hosts loads servers of your own, and a lab is of this machine alone; say --target URL, or leave out --hosts",
    )
    HOSTS_CANNOT = (EXIT_USAGE, "{what} cannot be had on other hosts: {detail}; leave out --hosts, or ask without")
    NEEDS_RAY = (EXIT_FAILED, "--hosts needs Ray: pip install 'costof[ray]'")
    HOSTS_UNREACHABLE = (
        EXIT_FAILED,
        "no Ray cluster answers at {address}: {detail}; start one (ray start --head), or name another",
    )
    HOSTS_TOKEN = (
        EXIT_FAILED,
        "the Ray cluster at {address} is closed to this command: {detail}; copy ~/.ray/auth_token from one of its "
        "hosts",
    )
    HOSTS_VERSION = (
        EXIT_FAILED,
        "the Ray cluster at {address} runs other versions: {detail}; install the same on both",
    )
    HOSTS_OPEN = (
        EXIT_FAILED,
        "whoever reaches the Ray cluster at {address} may run code on it; start it with RAY_AUTH_MODE=token on every "
        "host, or say --hosts-unauthenticated",
    )
    HOSTS_NONE = (EXIT_FAILED, "the Ray cluster at {address} has no host{detail} among its {nodes}; see ray status")
    HOSTS_FEW = (
        EXIT_FAILED,
        "the Ray cluster at {address} has {found} that can measure, and --hosts-least says {least}; start more",
    )
    HOST_REFUSED = (EXIT_FAILED, "{host} cannot measure: {detail}")
    HOSTS_FAILED = (EXIT_FAILED, "{detail}")
    HOST_LOST = (EXIT_FAILED, "{host} was lost: {detail}")
    OTHER_HOSTS = (
        EXIT_USAGE,
        "{path} was measured from {before}, and now it would be from {now}; --resume goes on as it was begun: say "
        "--hosts where it had them, and start what is missing",
    )
    RESUME_DIFFERS = (EXIT_USAGE, "--resume goes on with a run as it was planned; leave out {options}")
    RESUMED_WITHOUT_TARGET = (EXIT_USAGE, "{path} was begun without --target; leave out {options} to resume it")
    RESUMED_TARGET_DIFFERS = (
        EXIT_USAGE,
        "{path} was begun {before} and would go on {now}; leave out {option} to resume it as it was begun, or begin a "
        "new run",
    )
    RESUME_NEEDS = (EXIT_USAGE, "{path} was begun with {what}, which it does not keep; to resume it, give {how} again")
    RUN_COMPLETE = (EXIT_USAGE, "{path} is complete ({extent}); `costof show {path}` prints its answer{further}")
    OTHER_SERVER = (
        EXIT_USAGE,
        "{target} is not the server that the run was begun on: its {fact} was {before} and is now {now}; nothing was "
        "measured. Begin a new run",
    )

    @property
    def exit_status(self) -> int:
        return self.value[0]


class Caution(Enum):
    """What a reader must know beside the figures."""

    TWIN_DIFFERS = (
        "the identical copy of the control differs from it in {metrics} by more than chance: this run's noise is not "
        "random, so trust no effect of that size"
    )
    COMMAND_NOTE = "{arm}: {note}"
    LEFT_RUNNING = (
        "{arm} left {children} running in the background (in {slices}): costof ended it, and its work is in no figure; "
        "let the command wait for it"
    )
    LEFT_BEHIND = (
        "{arm} left {children} running as a daemon (in {slices}), which went on beside the slices that followed, and "
        "its work is in no figure; start it with `before` and end it with `after`"
    )
    EXPOSED_IN_COMMAND = (
        "what follows {places} looks like a password, and the report, the plan and the process list show it; pass it "
        'in the environment ("$NAME" under --shell), by [secrets] of a study\'s file, or in a file that the program '
        "reads"
    )
    DRIVERS_OWN_LIBRARY = "{libraries} on the wire alone: an application's driver links a TLS library of its own"
    EVIDENCE_MISSING = "{slices} of {arm} discarded: {detail}"
    LEFT_OUT_OF_TARGET = "left out, since only a lab has them: {levels}"
    BUDGET_HOLDS_FEW = (
        "measuring; this budget holds about {rounds} of the {needed} rounds that an answer takes: for one, end this "
        "run and give --budget {budget} or more"
    )
    APP_CANNOT = "{arm} has no application view: {detail}"
    CLIENT_CANNOT = "{arm} has no figures of {client}, which {detail}"
    ARM_REFUSED = "{arm} cannot run: {detail}"
    ROUNDS_DISTURBED = (
        "{discarded} of {rounds} rounds are in no figure: other programs or the hypervisor took far more of this "
        "machine's CPU in them than usual, or its clock jumped"
    )
    NEIGHBOURS = "other programs and the hypervisor had {share:.0%} of this machine's CPU time in the median round"
    STEAL = "the hypervisor took {share:.1%} of this machine's CPU time during the run; intervals are wider for it"
    ARM_LOST = "{arm} was lost in the middle of the run: {detail}"
    BUSY = "the machine was busy before the run began (load {load:.1f} on {cores} cores)"
    SERVER_COUNTERS_HIDDEN = (
        "the server's own counters cannot be read, so its side of the evidence is missing: {detail}"
    )
    SERVER_REFUSES = "the server refuses {what} ({detail}): the run does without it, and no figure needs it"
    SERVER_COUNTS_NONE = (
        "the server counted none of the first {opened} {what}: either its counter does not count them, or they end at "
        "something before the server. The evidence of them is the client's alone"
    )
    NO_NODE_SHARES = (
        "without root the members have no hosts and no CPU shares of their own: they compete for this machine, "
        "which hides how much the primary is relieved"
    )
    PRIMARY_DEPOSED = (
        "the primary of the set of {nodes} was deposed {times} times and made primary again; slices in which it was "
        "not primary were discarded"
    )
    TREE_HIDDEN = (
        "this user may not see who follows whom nor how far members lag ({detail}); grant it the role clusterMonitor "
        "to have them shown"
    )
    VERIFICATION_OFF = "{arm} does not verify the server's certificate fully (verify = {level})"
    NO_CPU_SHARE = (
        "without root {hosts} had no CPU share of their own and used what was free on this machine: {factors} had no "
        "effect"
    )
    NOT_VERIFIED = (
        "no certificate was verified with {arms} ({how}): anybody can stand in the middle of such a connection"
    )
    FEW_ROUNDS = "only {units}: intervals are wide and verdicts are withheld below {needed}"
    YCSB_WITHOUT_EFFECT = "ignored, since it changes nothing of what is done or measured here: {names}"
    YCSB_UNKNOWN = "ignored, since costof does not know it: {names}"
    YCSB_FAILED = "{count} operations failed with '{name}', the first one: {detail}"
    TPCC_UNSOUND = (
        "after the run TPC-C's data was not sound, so its transactions were not kept apart as their isolation "
        "promises: {detail}"
    )
    HOST_CANNOT = "from {hosts}: {detail}"
    HOST_LATE = "{host} began {milliseconds} ms after the others"
    HOSTS_APART = "the hosts measured together for {share} of the slice"
    HOSTS_DIFFER = "hosts saw different things: {what} was {found}"
    HOST_GONE = "{host} was lost in the middle of the run ({detail}), which went on with the {rest} others"
    HOSTS_IN_THE_CLEAR = (
        "what the cluster's machines say to each other can be read on the way, but for passwords: set RAY_USE_TLS"
    )
    HOSTS_OPEN = "whoever reaches the Ray cluster may run code on its hosts"
    HOSTS_ONE_MACHINE = "{hosts} are one machine (the same boot id): they take CPU from each other"
    HOSTS_WITHOUT_APPLICATIONS = "left out, since hosts have the engine alone: {views}"
    HOST_BUSY = "{host} had {share} of its CPU time in use during slices: what it measured may be its own limit"
    HOST_SLOW = "{host} answers {effect} slower than the other hosts: '{metric}'"
    HOST_DECIDES = "without {host} the verdict on {what} would be another: it is {verdict} with all hosts"
    HOST_PORTS = (
        "{host} opened up to {connections} connections a minute and has {ports} ports for them, each of which rests "
        "for a minute after its use: more hosts, or a wider net.ipv4.ip_local_port_range, keep them from running out"
    )
    NO_CONTROL = "the control cannot run, so there are figures but no effects"

    def text(self, **fields: object) -> str:
        return self.value.format(**fields)


class Undecipherable(Enum):
    """Why the application's driver (`costof.encrypted`) cannot read a column. Templates never take a value or a key."""

    MASTER_KEY = "a master key is 16 bytes, or 32 hexadecimal digits"
    KEY_MISSING = "it needs the master key {name}, which is not among master_keys"
    KEY_WRONG = "master key {name}: the master key is another one, or the data key was changed"
    KEY_PAST = "its data key is not the session's present one"
    KEYS_GONE = "the connection was closed, and its keys were erased with it: connect anew"
    ENVELOPE = "what follows the column's definition is no intact envelope of a gateway"
    ENVELOPE_OLDER = "the gateway speaks an older envelope: update the gateway"
    VALUE = "a value was changed, or encrypted for another column or session"
    ORDER = "a value came twice, out of order, or where another is missing"
    DEMAND = 'must_be_encrypted: {name} is not a list of "database.table.column", without patterns or quotes'
    DEMANDED = "it must be encrypted for this client, and is not"

    def text(self, **fields: object) -> str:
        return self.value.format(**fields)


#: How OpenSSL says that it knows no authority that has signed a certificate.
_UNTRUSTED = re.compile(r"self[- ]signed certificate|unable to get (?:local )?issuer certificate")
UNTRUSTED_HINT = "; no known authority has signed it: give the file of the authority that has: --tls-ca FILE"


class CostofError(Exception):
    """A problem a user can do something about: one line, an exit status, no traceback."""

    def __init__(self, problem: Problem, **fields: object) -> None:
        self.problem = problem
        text = problem.value[1].format(**fields)
        super().__init__(text + UNTRUSTED_HINT if _UNTRUSTED.search(text) and "--tls-ca" not in text else text)

    @property
    def exit_status(self) -> int:
        return self.problem.exit_status


def nearest(name: str, known: list[str]) -> str:
    """' (did you mean X?)' for a name close to a known one, else nothing."""
    from difflib import get_close_matches

    found = get_close_matches(name, known, n=1, cutoff=0.5)
    return f" (did you mean '{found[0]}'?)" if found else ""
