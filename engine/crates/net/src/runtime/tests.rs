//! Tests of the runtime with connections between tasks and threads.

use super::{Executor, Reactor, Watched};
use base::clock;
use base::error::Class;
use rustix::io::Errno;
use std::cell::RefCell;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;

const CONNECTIONS: usize = 600;

fn run<F: Future<Output = ()> + 'static>(task: impl Fn(Rc<Reactor>) -> F) {
    let mut executor = Executor::new().unwrap();
    let reactor = executor.reactor().clone();
    executor.spawn(task(reactor));
    executor.run_to_end().unwrap();
}

fn pair(reactor: &Rc<Reactor>) -> (Watched, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    (Watched::new(reactor, OwnedFd::from(ours)).unwrap(), theirs)
}

async fn receive(watched: &Watched, buffer: &mut [u8]) -> rustix::io::Result<usize> {
    loop {
        match watched.receive_or_wait(buffer) {
            Err(Errno::AGAIN) => watched.readable().await.unwrap(),
            outcome => return outcome,
        }
    }
}

async fn receive_all(watched: &Watched) -> Vec<u8> {
    let (mut all, mut buffer) = (Vec::new(), [0; 3000]);
    loop {
        match receive(watched, &mut buffer).await.unwrap() {
            0 => return all,
            received => all.extend(&buffer[..received]),
        }
    }
}

/// Return bytes in a pattern that repeats after 251 bytes. Because 251 is prime, the pattern never aligns with buffer
/// sizes, so bytes in the wrong place are detected.
fn pattern(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|place| ((place + seed) % 251) as u8).collect()
}

#[test]
fn many_connections_receive_all_bytes_in_order() {
    let mut executor = Executor::new().unwrap();
    let reactor = executor.reactor().clone();
    let received: Rc<RefCell<Vec<Vec<u8>>>> = Rc::new(RefCell::new(vec![Vec::new(); CONNECTIONS]));
    for number in 0..CONNECTIONS {
        let (ours, mut theirs) = pair(&reactor);
        let received = received.clone();
        executor.spawn(async move {
            // A first read into a small buffer must leave the remaining bytes for the next read.
            receive(&ours, &mut [0; 1]).await.unwrap();
            let rest = receive_all(&ours).await;
            received.borrow_mut()[number] = rest;
        });
        theirs.write_all(&pattern(number, 10_001)).unwrap();
    }
    executor.run_to_end().unwrap();
    for (number, bytes) in received.take().into_iter().enumerate() {
        assert!(bytes == pattern(number, 10_001)[1..], "connection {number}");
    }
}

#[test]
fn all_bytes_are_received_while_the_peer_is_still_sending() {
    for alone in [false, true] {
        run(move |reactor| async move {
            reactor.set_alone(alone);
            let (ours, mut theirs) = pair(&reactor);
            let sender = std::thread::spawn(move || theirs.write_all(&pattern(0, 5_000_000)).unwrap());
            assert!(receive_all(&ours).await == pattern(0, 5_000_000));
            sender.join().unwrap();
        });
    }
}

#[test]
fn wait_in_recv_ends_at_the_deadline() {
    // A peer that sends nothing, and one that always sends the next byte before `LONGEST_WAIT` is over.
    for peer_sends in [false, true] {
        run(move |reactor| async move {
            reactor.set_alone(true);
            let (ours, mut theirs) = pair(&reactor);
            let sender = std::thread::spawn(move || {
                for _ in 0..20_000 {
                    std::thread::sleep(Duration::from_millis(2));
                    if !peer_sends || theirs.write_all(b"x").is_err() {
                        break;
                    }
                }
                // Keep the connection open until the other end closes it.
                let _ = theirs.read(&mut [0]);
            });
            reactor.set_deadline(clock::now() + 100_000_000);
            let failure = loop {
                match ours.receive_or_wait(&mut [0; 16]) {
                    Ok(0) => panic!("the deadline had no effect"),
                    Err(Errno::AGAIN) => match ours.readable().await {
                        Ok(()) => {}
                        Err(failure) => break failure,
                    },
                    outcome => assert!(outcome.is_ok()),
                }
            };
            assert_eq!(failure.class, Class::Timeout);
            drop(ours);
            sender.join().unwrap();
        });
    }
}

#[test]
fn dropped_connection_closes_at_once_and_does_not_disturb_the_next_connection() {
    run(|reactor| async move {
        for round in 0..20 {
            let (ours, mut theirs) = pair(&reactor);
            reactor.set_deadline(0);
            assert!(ours.readable().await.is_err(), "the peer sent nothing");
            reactor.set_deadline(u64::MAX);
            // In every second round, bytes arrive before this connection is dropped. The next connection reuses this
            // connection's key in epoll, and may therefore get the event of these bytes.
            if round % 2 == 0 {
                theirs.write_all(b"late").unwrap();
            }
            drop(ours);
            let end = theirs.read(&mut [0; 1]);
            assert!(matches!(end, Ok(0)) || end.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
            let (next, mut peer) = pair(&reactor);
            peer.write_all(b"own").unwrap();
            let mut buffer = [0; 16];
            let received = receive(&next, &mut buffer).await.unwrap();
            assert_eq!(&buffer[..received], b"own");
        }
    });
}

#[test]
fn closed_connection_is_detected_even_if_no_task_waits_for_it() {
    run(|reactor| async move {
        let (quiet, mut theirs) = pair(&reactor);
        theirs.write_all(b"x").unwrap();
        receive(&quiet, &mut [0; 16]).await.unwrap();
        assert!(!quiet.is_readable() && !quiet.is_over());
        drop(theirs);
        while !quiet.is_over() {
            reactor.yield_now().await.unwrap();
        }
        assert_eq!(quiet.receive(&mut [0; 16]), Ok(0));
    });
}

#[test]
fn waiting_for_two_connections_ends_at_an_event_on_one_of_them() {
    for speaks in [0, 1] {
        run(move |reactor| async move {
            let (one, other) = (pair(&reactor), pair(&reactor));
            let mut theirs = [one.1, other.1];
            let sender = std::thread::spawn(move || {
                theirs[speaks].write_all(b"x").unwrap();
                theirs
            });
            let ours = [&one.0, &other.0];
            Watched::wait_for_either(ours, || ours[speaks].is_readable()).await.unwrap();
            assert!(!ours[1 - speaks].is_readable());
            drop(sender.join().unwrap());
        });
    }
}
