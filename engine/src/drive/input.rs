//! Standard input, on a thread of its own, because its end must end this process even in the middle of a slice.

use rustix::fs::{FileType, fstat};
use std::io::BufRead;
use std::sync::mpsc::{Receiver, channel};

/// The lines of standard input, blank ones left out. When a pipe or terminal ends, so does the process, at once: whoever
/// asked is gone. A file is answered to its end, so that a person can drive the engine with one.
pub fn lines() -> Receiver<String> {
    let (sender, receiver) = channel();
    let reader = move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if !line.trim().is_empty() && sender.send(line).is_err() {
                return;
            }
        }
        if !is_file() {
            std::process::exit(0);
        }
    };
    std::thread::Builder::new().name("input".into()).spawn(reader).expect("a thread can be started");
    receiver
}

fn is_file() -> bool {
    fstat(std::io::stdin()).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
}
