//! `costof-engine origin`: the server behind a balancer, which answers `OK` after as long as it is asked to.
//!
//! Read it in this order: [`plan`] is what goes in and out, [`conversation`] serves one connection: a [`request`] reader
//! over its bytes, and the [`response`] to each. [`counters`] is what was served. Threads share nothing but the TLS
//! settings, so that a session ticket of one is good at the others.

mod conversation;
mod counters;
mod plan;
pub mod request;
mod response;

pub use conversation::Site;

use base::error::Result;
use base::lines::{self, Lines, Question};
use base::process;
use net::serve::{Listeners, TlsFiles};
use plan::{Answer, Plan, Ready};
use std::process::ExitCode;
use std::sync::Arc;

/// Serve what standard input asks for, until it ends.
pub fn run() -> ExitCode {
    process::follow(|| {
        let mut lines = Lines::of_standard_input();
        let Some(line) = lines.next() else { return Ok(()) };
        let plan = Plan::parse(&line)?;
        process::allow_many_connections();
        let sites: Result<_> =
            plan.listeners.iter().map(|asked| Ok((asked.address, site(asked.tls.as_ref())?))).collect();
        let listeners = Listeners::open(sites?, plan.threads, "origin")?;
        lines::say(&Answer::Ready(Ready { listeners: listeners.addresses().to_vec() }));
        for line in lines {
            match lines::parse(&line)? {
                Question::Counters {} => lines::say(&Answer::Counters(listeners.counters())),
            }
        }
        Ok(())
    })
}

fn site(tls: Option<&TlsFiles>) -> Result<Site> {
    Ok(Site(tls.map(TlsFiles::open).transpose()?.map(Arc::new)))
}
