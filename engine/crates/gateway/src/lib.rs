//! `costof-engine gateway`: lets approved statements pass to a MySQL server and encrypts columns of its answers.
//!
//! Read it in this order: [`plan`] is what goes in and out, [`rules`] what is to be encrypted and for whom, [`conversation`]
//! moves the bytes of one client and its server, [`session`] decides what becomes of each packet, and [`statements`] which
//! statements pass and what the server gets in their place. Threads share the rules: a session looks at a number with each
//! command to see whether they are still the same.

mod admission;
mod check;
mod conversation;
mod counters;
mod inbox;
mod learn;
pub mod limits;
mod messages;
mod plan;
pub mod rules;
mod server_errors;
pub mod session;
mod session_statements;
mod site;
pub mod statements;
#[cfg(test)]
mod testing;

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

/// Serve the plan on standard input until the input ends.
pub fn run() -> ExitCode {
    process::follow(serve)
}

fn serve() -> Result<()> {
    let mut lines = Lines::of_standard_input();
    let Some(line) = lines.next() else { return Ok(()) };
    let plan = Plan::parse(&line)?;
    // Before any key is read.
    process::keep_memory_private()?;
    lock_keys();
    process::allow_many_connections();
    let gateway = Arc::new(Gateway::open(&plan)?);
    reload_on_hangup(gateway.clone())?;
    site::watch(&gateway)?;
    let (listeners, warnings) = (gateway.addresses().to_vec(), gateway.warnings());
    lines::say(&Answer::Ready(Ready { listeners, warnings }));
    for line in lines {
        match lines::parse(&line)? {
            Command::Counters {} => lines::say(&Answer::Counters(gateway.counters())),
            Command::Reload {} => lines::say(&Answer::Reloaded(gateway.reload())),
        }
    }
    Ok(())
}

/// Reload the rules on SIGHUP, and print the answer as for the command.
fn reload_on_hangup(gateway: Arc<Gateway>) -> Result<()> {
    let refused = |error: std::io::Error| Failure::new(Class::Internal, format!("cannot take SIGHUP: {error}"));
    let mut signals = Signals::new([SIGHUP]).map_err(refused)?;
    let work = move || signals.forever().for_each(|_| lines::say(&Answer::Reloaded(gateway.reload())));
    std::thread::Builder::new().name("signals".into()).spawn(work).map_err(refused)?;
    Ok(())
}
