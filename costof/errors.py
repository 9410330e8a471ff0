"""All messages of `costof` to its users: what is wrong, and what to do next.

An `ErrorText` ends the command. A `WarningText` is part of the result and is shown next to the figures. Each message
has named fields. mypy checks that each use of a message passes its fields. No message contains a secret: URLs are shown
without their passwords.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Generic, ParamSpec

EXIT_ANSWERED = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_PARTIAL = 3
EXIT_EXCEEDED = 4

Fields = ParamSpec("Fields")


@dataclass(frozen=True, eq=False)
class Message(Generic[Fields]):
    """A message to the user: a text with named fields, and the exit status if the message ends the command."""

    text: Callable[Fields, str]
    exit_status: int = EXIT_FAILED


def failed(text: Callable[Fields, str]) -> Message[Fields]:
    return Message(text, EXIT_FAILED)


def usage(text: Callable[Fields, str]) -> Message[Fields]:
    return Message(text, EXIT_USAGE)


class ErrorText:
    # ruff format would spread each message over many lines.
    # fmt: off
    UNKNOWN_STUDY = usage(lambda name, nearest: f"unknown study '{name}'{nearest}; `costof list` prints all studies")
    BROKEN_STUDY = usage(lambda path, detail: f"the study file {path} is not valid: {detail}")
    UNKNOWN_FACTOR = usage(lambda name, study, nearest, allowed: f"unknown factor '{name}' for {study}{nearest} "
        f"(choose from: {allowed})")
    UNKNOWN_LEVEL = usage(lambda level, factor, allowed: f"unknown level '{level}' for {factor} (choose from: "
        f"{allowed})")
    LAB_ONLY_FACTOR = usage(lambda factor: f"{factor} can be varied only in a lab, because costof does not change a "
        f"target's servers; remove {factor} or --target")
    LEVEL_APPLIES_NOWHERE = usage(lambda factor, condition: f"{factor} has an effect only with {condition}, but no arm "
        f"of this run has that level; choose it too with --set, or do not set {factor}")
    NOT_AN_ASSIGNMENT = usage(lambda text: f"'{text}' is not of the form factor=level[,level…]; for example: "
        "--set transport=plain,tls")
    BAD_NUMBER = usage(lambda name, low, high, text: f"{name} must be a whole number from {low} to {high}, not "
        f"'{text}'")
    BAD_DURATION = usage(lambda text: f"'{text}' is not a valid duration; write it as 45s, 5m or 1h30m")
    BAD_PRECISION = usage(lambda text: f"'{text}' is not a valid precision; write a percentage above 0, such as 2%")
    UNKNOWN_METRIC = usage(lambda name, study, nearest, allowed: f"unknown metric '{name}' for {study}{nearest} "
        f"(choose from: {allowed})")
    BAD_LIMIT = usage(lambda text, metric, example: f"'{text}' is not a valid limit for '{metric}'; write it as "
        f"{example}")
    LIMIT_NEEDS_SERVER_CPU = usage(lambda metric: f"a limit on '{metric}' needs the CPU time of your server; add "
        "--server-cpu COMMAND, or leave the limit out")
    NOT_A_COMMAND = usage(lambda text, detail: f"cannot run the command '{text}': {detail}")
    SHELL_SIGN = usage(lambda text, sign, remedy, otherwise: f"'{text}' contains '{sign}', which only a shell "
        f"understands, and costof runs the command without a shell; {remedy}, or {otherwise}")
    UNKNOWN_WORD = usage(lambda text, word, nearest: f"'{text}' contains the placeholder {{{word}}}, which has no "
        f"value in at least one arm{nearest}; set it in every level, or write {{{{{word}}}}} for literal braces")
    TOO_FEW_COMMANDS = usage(lambda: "versus needs commands, each in quotes: costof versus 'sleep 0.1' 'sleep 0.2'")
    TOO_MANY_COMMANDS = usage(lambda commands, most: f"these are {commands:,} commands with all their parameters, and "
        f"versus compares at most {most}; give fewer values")
    COMMAND_NAMES_MISMATCH = usage(lambda names, commands: f"-n gives {names} different names for {commands} commands; "
        "repeat -n so that each command has its own name")
    NOT_ONE_FOR_EACH = usage(lambda option, times, commands: f"{option} was given {times} times for {commands} "
        f"commands; give {option} once for all commands, or once for each command, the one of --reference included")
    BAD_PARAMETER = usage(lambda option, detail: f"{option}: {detail}; write it as -L threads 1,2,4 or as -P threads "
        "1 8")
    PARAMETER_TWICE = usage(lambda name: f"the parameter '{name}' is given twice; remove one of the two")
    SHELL_UNUSABLE = usage(lambda text, detail: f"'{text}' cannot be used as the shell (it must run `-c COMMAND`): "
        f"{detail}; write --shell default for sh, or -N for no shell")
    RUNS_TOO_FEW = usage(lambda: "an interval needs at least 2 runs of each command, and a verdict at least 5; give "
        "-r 5 or more (10 or more for a narrow interval)")
    RUNS_CONTRADICTORY = usage(lambda low, high: f"--min-runs {low} is above --max-runs {high}; change one of them")
    BAD_STATUSES = usage(lambda text: f"'{text}' is not a list of exit statuses from 1 to 255; write it as "
        "--ignore-failure=1,2")
    INPUT_UNREADABLE = usage(lambda path, detail: f"cannot read {path}: {detail}; --input needs a file, or null")
    UNKNOWN_READER = usage(lambda name, nearest, allowed: f"costof cannot read the output of '{name}'{nearest} "
        f"(choose from: {allowed})")
    UNKNOWN_CLIENT = usage(lambda name, nearest, allowed: f"unknown client '{name}'{nearest} (choose from: {allowed})")
    UNKNOWN_CLIENT_TEST = usage(lambda client, name, nearest, allowed: f"{client} has no test '{name}'{nearest} "
        f"(choose from: {allowed}); correct the table [clients] of the study's file")
    CLIENT_FOR_OTHER_SERVICE = usage(lambda client, supported, study, service: f"{client} is a client for {supported}, "
        f"but {study} measures {service}; choose another --client, or remove it")
    CLIENT_WITHOUT_LOAD = usage(lambda client: f"{client} sends requests as fast as it can, so it cannot keep the rate "
        "of --load; remove --load or --client")
    BAD_RANGE = usage(lambda text, ratio: f"'{text}' is too narrow a range of loads; its upper end must be at least "
                      f'{ratio:g} times its lower end, such as 100/s..3000/s')
    BAD_LATENCY_LIMIT = usage(lambda metric, text: f"'{text}' is not a valid limit for '{metric}'; write a percentile "
                              "from 50 to 99.9 and a time, such as 'p99 of a query' 10ms")
    LIMIT_NEEDS_RANGE = usage(lambda metric: f"a limit on '{metric}' needs a range of loads in which to look for the "
                              'capacity; add --load 100/s..3000/s')
    ONE_LATENCY_LIMIT = usage(lambda: "a range of loads can have only one limit on a percentile; keep one of them, "
        "such as --limit 'p99 of a query' 10ms")
    NO_PERCENTILE = usage(lambda command, name, known: f"no capacity can be found at a limit on '{name}', because the "
        f"report of {command} has no such percentile ({known}); to see all figures over the load, remove --limit")
    TOO_MANY_LOADS = usage(lambda count, most: f"--load lists {count} loads; give at most {most}, such as "
        "100/s,300/s,1000/s")
    FACTOR_NAMED_LOAD = usage(lambda study, factor: f"{study} has a factor '{factor}' of its own, so it cannot have "
        "several loads; rename the factor, or give one load, such as 300/s")
    BAD_RATE = usage(lambda text: f"'{text}' is not a valid load; write it as 300/s, 90/min or 5000/h")
    BAD_TIME = usage(lambda text: f"'{text}' is not a valid think time; write it as 20ms or 2s (one hour at most)")
    LOAD_INCOMPLETE = usage(lambda option, other: f"{option} also needs {other}")
    LOAD_CONTRADICTORY = usage(lambda option, other: f"{option} and {other} contradict each other; remove one")
    NO_LOAD = usage(lambda study: f"{study} measures operations on open connections, not new connections, so --load "
        "also needs the number of connections; add --pool 8")
    NO_RATE = usage(lambda study, option: f"{option} does not work with the commands of {study}; put the placeholder "
        "{rate} where a command line expects a rate, and set its value with --load 300/s")
    RATE_WITHOUT_LOAD = usage(lambda study: f"the commands of {study} contain the placeholder {{rate}}; set its value "
        "with --load 300/s")
    NO_LIMITS = usage(lambda path: f"the run in {path} has no limits; give one with --limit METRIC LIMIT")
    ROUNDS_ARE_EXACT = usage(lambda options: f"the given number of rounds already sets when the run ends; remove "
        f"{options}, or the number of rounds")
    RESTARTS_ARE_EXACT = usage(lambda: "--restarts sets exactly how many starts are measured, so the run cannot end "
        "at a precision; remove --precision, or --restarts")
    RESTARTS_NEED_LAB = usage(lambda: "--restarts works only in a lab; remove --restarts or --target")
    UNKNOWN_PROFILE = usage(lambda study, name, allowed: f"unknown profile '{name}' for {study} (choose from: "
        f"{allowed})")
    OUTPUT_NOT_WRITABLE = failed(lambda path, detail: f"cannot write to {path}: {detail}; choose another folder with "
        "--out")
    FILE_NOT_WRITABLE = failed(lambda path, detail: f"cannot write {path}: {detail}; choose another file")
    FILE_EXISTS = failed(lambda path: f"{path} already exists; choose another file")
    NOT_A_STUDY_FILE = usage(lambda path: f"the name of a study file must end with .toml; rename '{path}'")
    NO_BROWSER = failed(lambda names: f"--pdf needs a browser, and none of {names} is on PATH; install one (apt-get "
        "install chromium), or open report.html in your own browser and print it")
    NOT_PRINTED = failed(lambda browser, path, detail: f"{browser} did not write {path}: {detail}; open report.html in "
        "a browser and print it")
    NEEDS_EXPORT = failed(lambda form, library: f"--to {form} needs {library}; run pip install 'costof[export]'")
    OUTPUT_EXISTS = failed(lambda path: f"{path} is not empty; choose another folder with --out")
    NOT_A_RUN = usage(lambda path, detail: f"{path} is not the folder of a run: {detail}")
    NO_RUNS = usage(lambda path, detail: f"{path} contains no runs{detail}; give the folder that contains the runs' "
        "folders, such as runs")
    OTHER_STUDY = usage(lambda first, study, second, other: f"{first} is a run of {study} and {second} is a run of "
        f"{other}; only runs of the same study can be compared")
    SEVERAL_STUDIES = usage(lambda path, studies: f"{path} contains runs of {studies}; choose one study with --study")
    OTHER_LEDGER = failed(lambda path, found, known: f"{path} was written by another version of costof (format "
        f"{found}; this version reads {known}); read its report.html, or repeat the run")
    NOTHING_MEASURED = failed(lambda detail: f"nothing was measured: {detail}")
    SELFTEST_TOO_SHORT = failed(lambda: "too few rounds for a verdict: give `costof selftest` a longer --budget")
    ENGINE_MISSING = failed(lambda detail: f"costof-engine was not found ({detail}); run `make setup`, reinstall the "
        "wheel, or set COSTOF_ENGINE to its path")
    TLS_LIBRARY_MISSING = failed(lambda library: f"no costof-engine is built with the TLS library {library}; run `make "
        "tls-libraries` in the sources of costof")
    OTHER_TLS_LIBRARY = failed(lambda library, found: f"the costof-engine for the TLS library {library} reports the "
        f"library {found}; rebuild it with `make tls-libraries`")
    INSTRUMENT_FAILED = failed(lambda instrument, detail: f"{instrument} stopped: {detail}")
    MONGOD_MISSING = failed(lambda detail: f"the lab needs mongod ({detail}); run `costof fetch mongod`, install it, "
        "or set COSTOF_MONGOD to its path")
    PROGRAM_MISSING = failed(lambda program, detail, package, variable: f"the lab needs {program} ({detail}); install "
        f"it (Debian: apt-get install {package}), or set {variable} to its path")
    UNKNOWN_RELEASE = usage(lambda program, version, allowed: f"costof has no {program} of version '{version}' (choose "
        f"from: {allowed}, or give the absolute path of the folder with your own {program})")
    RELEASE_NOT_FETCHED = failed(lambda name: f"{name} has not been fetched; run `costof fetch {name}`")
    NO_PROGRAM_IN_FOLDER = usage(lambda program, folder: f"the folder {folder} has no program {program}; give the "
        "absolute path of the folder that has it")
    FIREWALL_MISSING = failed(lambda detail, packages: "the lab needs nginx with ModSecurity and the OWASP core rule "
        f"set ({detail}); run `costof fetch modsecurity`, or install it (Debian: apt-get install {packages})")
    ENVOY_MISSING = failed(lambda detail: f"the lab needs envoy ({detail}); run `costof fetch envoy`, or set "
        "COSTOF_ENVOY to its path")
    NOT_FETCHED = failed(lambda program, detail: f"cannot fetch {program}: {detail}")
    NEEDS_ROOT = failed(lambda what, detail: f"{what} needs root: {detail}; run costof as root, or leave {what} out")
    FUSE_MISSING = failed(lambda program, device, reason: f"{program} needs {device}, but {reason}; run costof as root "
        "on a machine with FUSE, or leave out the levels that need it")
    KEY_FILE_UNUSABLE = failed(lambda path, reason: f"the lab's server cannot use the key file {path}: {reason}; set "
        "TMPDIR to a folder on a local file system with Unix permissions, such as /tmp")
    LAB_FAILED = failed(lambda detail: f"the lab failed: {detail}")
    NO_DISK = failed(lambda folders: f"{folders} are in memory, where a flush costs nothing; set TMPDIR to a folder on "
        "a disk that all users can enter")
    NOTHING_TO_COMPARE = usage(lambda control: f"the chosen levels leave only the control ({control}); add a level to "
        "compare it with")
    ARMS_CANNOT_RUN = failed(lambda detail: f"no arm can run: {detail}")
    BAD_TARGET = usage(lambda study, detail: f"the URL is not a valid target for {study}: {detail}")
    PASSWORD_MISSING = usage(lambda target: f"{target} contains a user but no password; give it with --password-file, "
        "--ask-password or COSTOF_PASSWORD")
    PASSWORD_TWICE = usage(lambda ways: f"the password is given twice, by {ways}; give it once")
    PASSWORD_FILE = usage(lambda path, detail: f"cannot read the password from {path}: {detail}; the file must contain "
        "one line, the password")
    PASSWORD_VARIABLE = usage(lambda name: f"the value of the environment variable {name} is not UTF-8; set it to "
        "UTF-8 text")
    TARGET_OPTION_UNUSED = usage(lambda option: f"{option} works only with --target and the URL of a database server, "
        f"such as mysql://…; add --target, or remove {option}")
    BAD_SERVER_CPU = usage(lambda text, detail: "--server-cpu needs a command that prints the seconds of CPU time that "
        f"your servers have used; '{text}' is no command: {detail}")
    SERVER_CPU_UNREAD = failed(lambda program, detail: f"--server-cpu {program}: {detail}; the command must print the "
        "seconds of CPU time that the servers have used so far")
    BAD_SERVER_MEMORY = usage(lambda text, detail: "--server-memory needs a command that prints the memory that your "
        f"servers use; '{text}' is no command: {detail}")
    SERVER_MEMORY_UNREAD = failed(lambda program, detail: f"--server-memory {program}: {detail}; the command must "
        "print the bytes of memory that the servers use now, or a number with its unit, such as 812 MiB")
    MEMORY_NEEDS_COMMAND = usage(lambda: "--memory needs a command that reads the memory of your servers; add "
        "--server-memory COMMAND")
    NO_MEMORY = usage(lambda study: f"the memory of a connection cannot be measured for {study}; remove --memory")
    PLAIN_NOT_ALLOWED = usage(lambda target, arms, factor, protected: f"{target} demands TLS, but {arms} would log in "
        f"without it; add --allow-plain to measure without TLS too, or --set {factor}={protected} to measure only TLS")
    BAD_DATABASE = usage(lambda name, most: f"'{name}' is not a valid name for costof's database; use up to {most} "
        "letters, digits and _, beginning with a letter, but not the name of one of the server's own databases")
    PRIVILEGES_MISSING = failed(lambda account, actions, database, target, grant: f"the account {account} may "
        f"not {actions} in {database} on {target}; nothing was written. Have an administrator run: {grant}")
    NO_SERVICE = usage(lambda what, name: f"the study names an unknown {what}, '{name}'; correct the study file")
    UNKNOWN_SERVICE_SETTING = usage(lambda protocol, detail: f"the study has a setting that the protocol {protocol} "
        f"does not support ({detail}); correct the study file")
    NO_TARGET = usage(lambda study: f"--target has no effect on {study}, whose commands name their own servers; remove "
        "--target")
    LAB_ONLY_STUDY = usage(lambda study: f"{study} can be measured only in a lab, because it changes its servers' "
        "settings; remove --target, or compare your servers with costof versus")
    LAB_ONLY_PROGRAM = usage(lambda study: f"{study} can be measured only in a lab, because it cannot yet "
        "address servers that costof does not start; remove --target, or compare your servers with costof versus")
    NO_ENTRANCE_TO_TARGET = usage(lambda levels, factor, other_levels: f"{levels} can be measured only in a lab, "
        f"because costof starts no tunnel or pooler in front of your servers; give --set {factor}={other_levels}, or "
        "--pooler URL if you have a pooler")
    LAB_ONLY_LEVEL = usage(lambda levels, factor, other_levels: f"{levels} can be measured only in a lab, because it "
        f"needs a setting of the whole server; give --set {factor}={other_levels}, or remove --target")
    LEVELS_UNSUPPORTED = failed(lambda target, factor, levels, reason, others: f"{factor}={levels} cannot be measured "
        f"on {target}, because {reason}; "
        + (f"give --set {factor}={others}" if others else f"choose other levels of {factor}"))
    TARGET_ONLY_LEVEL = usage(lambda factor, levels: f"{factor}={levels} needs your own pooler; give --target URL "
        "--pooler URL, or choose other levels")
    POOLER_UNUSED = usage(lambda study: f"{study} does not measure a pooler; remove --pooler, or run postgres-pooling")
    NO_POOLER = failed(lambda pooler, target, detail: f"{pooler} is not a pooler in front of {target}: {detail}; give "
        "your pooler's URL with --pooler")
    TARGET_LACKS_TERMINATION = usage(lambda levels, other_levels: f"termination={levels} can be measured only in a "
        f"lab, because costof reaches only the balancer of your servers; give --set termination={other_levels}")
    PLAIN_TARGET_MISSING = usage(lambda study: f"the control of {study} is plain HTTP; give your balancer's plain "
        "address with --plain-target http://…")
    PLAIN_TARGET_UNUSED = usage(lambda: "--plain-target works only with the --target of an HTTP study; add --target, "
        "or remove --plain-target")
    TARGET_UNREACHABLE = failed(lambda target, detail: f"cannot reach {target}: {detail}")
    TARGET_REFUSES_LOGIN = failed(lambda target, detail: f"{target} refuses the user or the password: {detail}")
    TARGET_FAILED = failed(lambda target, detail: f"{target}: {detail}")
    TARGET_OCCUPIED = failed(lambda database, target, what: f"the database '{database}' on {target} {what}; nothing "
        "was changed. Choose another with --database; `costof clean --target …` lists and removes databases of killed "
        "runs")
    NO_REPLICA_SET = failed(lambda target: f"{target} is not a replica set, so it replicates nothing; give the URL of "
        "a replica set")
    TLS_CA_INVALID = failed(lambda path, detail: f"{path} is not a valid CA file: {detail}; --tls-ca needs PEM "
        "certificates")
    AB_URL = usage(lambda detail: f"the URL is not valid ({detail}); write it as http://shop.example/path")
    AB_CONCURRENCY = usage(lambda: "the concurrency (-c) is greater than the number of requests (-n); raise -n or "
        "lower -c")
    AB_HEADER = usage(lambda text: f"{text} is not a valid header; write it as -H 'Name: value', on one line")
    AB_POST = usage(lambda: "costof ab sends only GET requests and does not support -p; let ab itself send the body: "
        "costof versus --read ab 'ab -p FILE -T TYPE -n 1000 URL' 'ab -p FILE -T TYPE -n 1000 OTHER_URL'")
    AB_UNANSWERED = failed(lambda url, detail: f"no answer from {url}: {detail}")
    YCSB_FILE_UNREADABLE = usage(lambda path, detail: f"cannot read {path}: {detail}; -P needs a property file, or a "
        "built-in workload (workloada to workloadf)")
    YCSB_NOT_A_PROPERTY = usage(lambda: "-p needs name=value; for example: -p recordcount=1000")
    YCSB_BAD_PROPERTY = usage(lambda name, allowed: f"{name} must be {allowed}")
    YCSB_NEEDS = usage(lambda what, option: f"{what} is missing; give it with -p {option}")
    YCSB_GO_NAMES = usage(lambda names, instead: f"costof does not support go-ycsb's property names: replace {names} "
        f"by {instead}")
    YCSB_TABLE_OCCUPIED = failed(lambda table, target: f"{table} on {target} already contains records, and nothing was "
        "written; load into an empty table, or set the number of the first new record with -p insertstart=N")
    YCSB_TABLE_EMPTY = failed(lambda table, target: f"{table} on {target} contains no records; load some first with "
        "costof ycsb load")
    YCSB_TABLE_MISSING = failed(lambda table, target, statement: f"{table} does not exist on {target}; create it as "
        f"YCSB expects it: {statement}")
    GATEWAY_ADDRESS = usage(lambda text: f"'{text}' is not a valid address; write it as 127.0.0.1:3307")
    GATEWAY_LEARN = usage(lambda: "--learn and --learn-account work only together; add the other one")
    GATEWAY_REFUSED = usage(lambda detail: f"the gateway does not start: {detail}")
    TPCC_UNSOUND = failed(lambda where, detail: f"the TPC-C data in {where} is inconsistent after loading ({detail}); "
        "repeat the run, and if the error stays, look for another program that writes there")
    HOSTS_OPTION_UNUSED = usage(lambda option: f"{option} works only with --hosts; add --hosts auto or --hosts "
        f"ray://host:10001, or remove {option}")
    HOSTS_ADDRESS = usage(lambda text: f"'{text}' is not the address of a Ray cluster; give auto on a machine of the "
        "cluster, or ray://host:10001 from another machine")
    HOSTS_LABEL = usage(lambda text: f"'{text}' is not a valid label; write it as pool=load, as in `ray start "
        "--labels`")
    HOSTS_NEED_TARGET = usage(lambda: "--hosts works only with your own servers, because a lab runs only on this "
        "machine; add --target URL, or remove --hosts")
    HOSTS_CANNOT = usage(lambda what, detail: f"--hosts does not support {what}: {detail}; remove one of the two")
    NEEDS_RAY = failed(lambda: "--hosts needs Ray; run pip install 'costof[ray]'")
    HOSTS_UNREACHABLE = failed(lambda address, detail: f"cannot reach a Ray cluster at {address}: {detail}; start one "
        "(ray start --head), or give another address")
    HOSTS_TOKEN = failed(lambda address, detail: f"the Ray cluster at {address} refuses this machine: {detail}; copy "
        "~/.ray/auth_token from one of its hosts")
    HOSTS_VERSION = failed(lambda address, detail: f"the Ray cluster at {address} runs other versions: {detail}; "
        "install the same versions on both sides")
    HOSTS_OPEN = failed(lambda address: f"the Ray cluster at {address} has no authentication: anyone who reaches it "
        "can run code on it; start Ray with RAY_AUTH_MODE=token on every host, or add --hosts-unauthenticated")
    HOSTS_NONE = failed(lambda address, nodes, required: f"the Ray cluster at {address} has {nodes}, but none with "
        f"{required}; check `ray status`")
    HOSTS_FEW = failed(lambda address, hosts, least: f"only {hosts} of the Ray cluster at {address} can measure, and "
        f"--hosts-least is {least}; start more hosts, or lower --hosts-least")
    HOST_REFUSED = failed(lambda host, detail: f"{host} cannot measure: {detail}")
    # The whole text comes from the process that controls the hosts.
    HOSTS_FAILED = failed(lambda error: f"{error}")
    HOST_LOST = failed(lambda host, detail: f"{host} failed: {detail}")
    OTHER_HOSTS = usage(lambda path, before, now: f"{path} was measured from {before}, and now it would be measured "
        f"from {now}; give --hosts as in the first command, and start missing hosts")
    RESUME_DIFFERS = usage(lambda options: f"--resume continues a run as it was planned; remove {options}")
    RESUMED_WITHOUT_TARGET = usage(lambda path, options: f"{path} was started without --target; remove {options} to "
        "resume it")
    RESUMED_TARGET_DIFFERS = usage(lambda path, before, now, option: f"{path} was started {before}, and now it would "
        f"continue {now}; remove {option} to resume it unchanged, or start a new run")
    RESUME_NEEDS = usage(lambda path, what, how: f"{path} was started with {what}, which the run does not store; give "
        f"{how} again to resume it")
    RUN_COMPLETE = usage(lambda path, extent, further: f"{path} is complete ({extent}); `costof show {path}` prints "
        f"its answer{further}")
    OTHER_SERVER = usage(lambda target, fact, before, now: f"{target} is not the server that the run was started on: "
        f"its {fact} was {before} and is now {now}; nothing was measured. Start a new run")
    # fmt: on


class WarningText:
    # fmt: off
    REPLICATE_DIFFERS = Message(lambda metrics: f"two identical copies of the control differ in {metrics} by more "
        "than chance: trust only effects that are larger than this difference")
    COMMAND_NOTE = Message(lambda arm, note: f"{arm}: {note}")
    LEFT_RUNNING = Message(lambda arm, children, slices: f"{arm} left {children} running in the background (in "
        f"{slices}): costof ended it, and no figure contains its work; make the command wait for it")
    LEFT_BEHIND = Message(lambda arm, children, slices: f"{arm} left {children} running as a daemon (in {slices}): "
        "such a process runs during the next slices too, and no figure contains its work; start it with the arm's "
        "setting `before`, and end it with `after`")
    EXPOSED_IN_COMMAND = Message(lambda places: f"the value after {places} looks like a password and is visible in the "
        'report, the plan and the process list; pass it in the environment ("$NAME" in a line that a shell runs), by '
        "[secrets] of a study file, or in a file that the program reads")
    SETUP_REPEATED = Message(lambda: "the commands differ only in --setup, so one command's setup would undo the "
        "other's: therefore each command's setup runs again whenever that command is measured, as with --setup-each")
    SHORT_IN_SHELL = Message(lambda command, took, remedy: f"{command} takes only {took}, including the start of the "
        "shell, which takes equally long for all commands: differences are right, but percentages are too small; "
        f"{remedy}")
    FIRST_RUN_SLOW = Message(lambda command, first, others, remedy: f"the first run of {command} took {first}, and the "
        f"others about {others}, perhaps because caches were still cold; {remedy}")
    OUTLIERS = Message(lambda command, runs, share, remedy: f"{runs} of {command} took far longer than the others and "
        f"raise its mean by {share}; {remedy}")
    LIBRARY_NOT_IN_DRIVERS = Message(lambda libraries: f"{libraries}: measured only by costof's engine, because an "
        "application's driver uses its own TLS library")
    EVIDENCE_MISSING = Message(lambda slices, arm, detail: f"{slices} of {arm} discarded: {detail}")
    LACKING_LEVELS = Message(lambda levels, reason: f"left out: {levels}, because {reason}")
    OTHERS_FLUSH = Message(lambda per_second: f"other sessions of the server flushed its log up to {per_second:,.0f} "
        "times a second, and these flushes are in 'flushes a commit', because the server counts all of them together")
    LAB_ONLY_LEVELS = Message(lambda levels: f"levels left out, because they exist only in a lab: {levels}")
    BUDGET_HOLDS_FEW = Message(lambda rounds, needed, budget: f"measuring; the budget is enough for about {rounds} of "
        f"the {needed} rounds that verdicts need: for verdicts, stop this run and repeat it with --budget {budget}")
    APP_CANNOT = Message(lambda arm, detail: f"{arm} was not measured with an application's driver: {detail}")
    CLIENT_CANNOT = Message(lambda arm, client, detail: f"{arm} was not measured with {client}, which {detail}")
    ARM_REFUSED = Message(lambda arm, detail: f"{arm} cannot run: {detail}")
    ARM_LOST = Message(lambda arm, detail: f"{arm} failed during the run: {detail}")
    BUSY = Message(lambda share, load, cores: f"the machine was busy just before the run started: other programs used "
        f"{share:.0%} of its CPU time (load {load:.1f} on {cores} cores)")
    SERVER_COUNTERS_HIDDEN = Message(lambda detail: "the server's counters cannot be read, so the server's side of the "
        f"evidence is missing: {detail}")
    SERVER_REFUSES = Message(lambda what, detail: f"the server refuses {what} ({detail}); no figure needs it, and the "
        "run continues without it")
    SERVER_COUNTS_NONE = Message(lambda opened, what: f"the server counted none of the first {opened} {what}, so only "
        "the client confirms that they were made as intended. Either the server's counter leaves them out, or a proxy "
        "in front of the server accepts them")
    NO_NODE_SHARES = Message(lambda: "without root the replica set's members have no CPU limits and compete for this "
        "machine's CPU, which hides how much load secondaries take off the primary")
    PRIMARY_DEPOSED = Message(lambda nodes, times: f"the replica set of {nodes} members elected another primary "
        f"{'once' if times == 1 else f'{times} times'}, and costof restored the first one; slices without it as "
        "primary were discarded")
    TREE_HIDDEN = Message(lambda detail: f"the account may not read which member replicates from which, nor their lag "
        f"({detail}); grant it the role clusterMonitor to show both")
    VERIFICATION_OFF = Message(lambda arm, level: f"{arm} does not fully verify the server's certificate (verify = "
        f"{level})")
    NO_CPU_SHARE = Message(lambda hosts, factors: f"without root {hosts} had no CPU limit and used whatever was free "
        f"on this machine, so {factors} had no effect")
    NOT_VERIFIED = Message(lambda arms, how: f"no certificate was verified with {arms} ({how}): such a connection is "
        "open to a man in the middle")
    FEW_ROUNDS = Message(lambda units, needed: f"only {units}: intervals are wide, and verdicts need at least {needed}")
    YCSB_WITHOUT_EFFECT = Message(lambda names: f"ignored, because they have no effect in costof: {names}")
    YCSB_UNKNOWN = Message(lambda names: f"ignored, because costof does not know them: {names}")
    YCSB_FAILED = Message(lambda count, name, detail: f"{count} operations failed with '{name}', the first one: "
        f"{detail}")
    TPCC_UNSOUND = Message(lambda detail: "the TPC-C data was inconsistent after the run, so transactions were not "
        f"isolated as promised: {detail}")
    HOST_CANNOT = Message(lambda hosts, detail: f"{detail} (on {hosts})")
    HOST_LATE = Message(lambda host, milliseconds: f"{host} started {milliseconds} ms after the others")
    HOSTS_NOT_SIMULTANEOUS = Message(lambda share: f"all hosts measured at the same time for only {share} of the slice")
    HOSTS_DIFFER = Message(lambda what, found: f"the client hosts connected with different settings: {what} was "
        f"{found}; use the same versions and settings on all of them")
    HOST_GONE = Message(lambda host, detail, rest: f"host {host} failed during the run ({detail}); the run continued "
        f"with the remaining {rest}")
    HOSTS_IN_THE_CLEAR = Message(lambda: "traffic between the cluster's machines is not encrypted, except for "
        "passwords: set RAY_USE_TLS")
    HOSTS_OPEN = Message(lambda: "the Ray cluster has no authentication: anyone who reaches it can run code on its "
        "hosts")
    HOSTS_ONE_MACHINE = Message(lambda hosts: f"{hosts} are the same machine (the same boot id): they take CPU from "
        "each other")
    HOSTS_WITHOUT_APPLICATIONS = Message(lambda workloads: f"not measured: {workloads} (hosts run only costof's own "
        "load generator, no application drivers)")
    HOST_BUSY = Message(lambda host, share: f"{host} used {share} of its CPU time during slices: its figures may show "
        "the limit of this host instead of the limit of the servers")
    HOST_SLOW = Message(lambda host, effect, metric: f"{host} measured '{metric}' {effect} slower than the other hosts")
    HOST_DECIDES = Message(lambda host, what, verdict: f"the verdict on {what} depends on {host}: it is {verdict} with "
        f"all hosts, and a different one without {host}")
    HOST_PORTS = Message(lambda host, connections, ports: f"{host} opened up to {connections} connections a minute and "
        f"has {ports} local ports, each of which is blocked for a minute after use: add hosts, or widen "
        "net.ipv4.ip_local_port_range")
    SELFTEST_WRONG = Message(lambda: "run `costof selftest` once more, since about one run in a hundred fails by "
        "chance; if it fails again, report it with the folder of `costof selftest --out FOLDER`")
    NO_CONTROL = Message(lambda: "the control cannot run, so there are figures but no effects")
    # fmt: on


class Undecipherable:
    """Reasons why `costof.encrypted`, the driver with which an application decrypts columns, cannot read a column.

    No text contains a value or a key.
    """

    # fmt: off
    MASTER_KEY = Message(lambda: "a master key must be 16 bytes, or 32 hexadecimal digits")
    KEY_MISSING = Message(lambda name: f"decryption needs the master key {name}, which is not in master_keys")
    KEY_WRONG = Message(lambda name: f"master key {name} is wrong, or the data key was changed")
    KEY_PAST = Message(lambda: "the value was encrypted with a data key that is not the session's current one")
    KEYS_GONE = Message(lambda: "the connection was closed and its keys were erased: open a new connection")
    ENVELOPE = Message(lambda: "the encryption data that the gateway appends to the column's definition in a "
        "result are missing or damaged")
    ENVELOPE_OLDER = Message(lambda: "the gateway sends its encryption data in an older format: update the gateway")
    VALUE = Message(lambda: "a value was changed, or was encrypted for another column or session")
    ORDER = Message(lambda: "encrypted values of the result were repeated, reordered or left out after the gateway "
        "sent them")
    REQUIRED_NAME = Message(lambda name: f'must_be_encrypted: {name} must be a list of column names '
        '"database.table.column", without patterns or quotes')
    NOT_ENCRYPTED = Message(lambda: "this column is listed in must_be_encrypted, but is not encrypted for this client")
    # fmt: on


#: Matches OpenSSL's errors for a certificate that no known authority has signed.
_UNTRUSTED = re.compile(r"self[- ]signed certificate|unable to get (?:local )?issuer certificate")
UNTRUSTED_HINT = "; no known authority has signed the certificate: give the CA file of its authority with --tls-ca FILE"


class CostofError(Exception):
    """An error that the user can fix: shown as one line with an exit status, without a traceback."""

    def __init__(self, message: Message[Fields], *args: Fields.args, **fields: Fields.kwargs) -> None:
        self.message = message
        self.exit_status = message.exit_status
        text = message.text(*args, **fields)
        super().__init__(text + UNTRUSTED_HINT if _UNTRUSTED.search(text) and "--tls-ca" not in text else text)


def nearest(name: str, known: list[str]) -> str:
    """Return " (did you mean 'X'?)" if a known name is similar, else ''."""
    matches = get_close_matches(name, known, n=1, cutoff=0.5)
    return f" (did you mean '{matches[0]}'?)" if matches else ""
