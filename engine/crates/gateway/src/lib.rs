//! The `costof-engine gateway` command: it passes approved statements to a MySQL server and encrypts result columns.
//!
//! Read the modules in this order:
//!
//! - [`plan`]: input and output messages.
//! - [`rules`]: protected columns and accounts.
//! - [`statements`]: parsing a text and finding the approved statement.
//! - [`session`], with [`login`], [`answers`], [`guard`] and [`sealing`]: the decision about each packet.
//! - [`conversation`]: sending and receiving.
//!
//! All threads share the rules. Each replacement of the rules increases their generation number. A session looks at
//! this number at each command, and so notices new rules.

mod answers;
mod conversation;
mod counters;
mod errors;
mod guard;
mod learn;
mod login;
mod plan;
pub mod rules;
mod sealing;
pub mod session;
mod session_statements;
mod site;
mod statements;

pub use plan::Limits;

use base::error::{Class, Failure, Result};
use base::lines::{self, Lines};
use base::process;
use encryption::lock_keys;
use plan::{Answer, Command, Plan, Ready};
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;
use site::Gateway;
use std::process::ExitCode;
use std::sync::Arc;

/// Run the gateway until its input ends, and return the exit code. The input begins with the configuration, a `Plan`.
pub fn run() -> ExitCode {
    process::run(serve)
}

fn serve() -> Result<()> {
    let mut lines = Lines::from_standard_input();
    let Some(line) = lines.next() else { return Ok(()) };
    let plan = Plan::parse(&line)?;
    // Keep the process's memory out of core dumps and debuggers before any key is read.
    process::keep_memory_private()?;
    lock_keys();
    process::raise_open_files_limit();
    let gateway = Arc::new(Gateway::open(&plan)?);
    reload_on_hangup(gateway.clone())?;
    gateway.watch()?;
    let (listeners, warnings) = (gateway.addresses().to_vec(), gateway.warnings());
    lines::write(&Answer::Ready(Ready { listeners, warnings }));
    for line in lines {
        match lines::parse(&line)? {
            Command::Counters {} => lines::write(&Answer::Counters(gateway.counters())),
            Command::Reload {} => lines::write(&Answer::Reloaded(gateway.reload())),
        }
    }
    Ok(())
}

/// At each SIGHUP, do what the command `reload` does: reload the rules and print an answer.
fn reload_on_hangup(gateway: Arc<Gateway>) -> Result<()> {
    let failed = |error: std::io::Error| Failure::new(Class::Internal, format!("cannot handle SIGHUP: {error}"));
    let mut signals = Signals::new([SIGHUP]).map_err(failed)?;
    let work = move || signals.forever().for_each(|_| lines::write(&Answer::Reloaded(gateway.reload())));
    std::thread::Builder::new().name("signals".into()).spawn(work).map_err(failed)?;
    Ok(())
}
