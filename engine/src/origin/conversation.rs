//! One connection, from its acceptance to its end.

use super::counters::Counters;
use super::request::{Reader, Refusal};
use super::response;
use base::clock;
use base::error::Result;
use net::runtime::Reactor;
use net::serve::Server;
use net::transport::{Stream, TlsServer};
use std::rc::Rc;
use std::sync::Arc;

const NANOS_PER_MILLISECOND: u64 = 1_000_000;
/// How long a client that was refused may go on sending, in nanoseconds.
const LINGER: u64 = 1_000_000_000;
/// And how much.
const LINGER_BYTES: usize = 1 << 20;

/// A listener's; plain without TLS settings.
#[derive(Clone)]
pub struct Site(pub Option<Arc<TlsServer>>);

impl Server for Site {
    type Counters = Counters;

    /// Of its errors nobody has to know: the client sees them itself.
    async fn serve(self, stream: Stream, reactor: Rc<Reactor>, counters: Arc<Counters>) {
        let stream = match self.0 {
            None => stream,
            Some(server) => {
                let Ok((stream, made)) = stream.secure_as_server(&server).await else { return };
                counters.handshake(&made);
                stream
            }
        };
        let _ = answer_all(stream, &reactor, &counters).await;
    }
}

async fn answer_all(mut stream: Stream, reactor: &Reactor, counters: &Counters) -> Result<()> {
    let mut reader = Reader::new();
    loop {
        match reader.next_request() {
            Ok(Some(request)) => {
                counters.request();
                if request.wait_ms > 0 {
                    reactor.sleep_until(clock::now() + u64::from(request.wait_ms) * NANOS_PER_MILLISECOND).await;
                }
                stream.send(response::to(&request)).await?;
                if !request.keeps_alive() {
                    stream.close();
                    return Ok(());
                }
            }
            Ok(None) => {
                let received = stream.receive(reader.room()).await?;
                if received == 0 {
                    stream.close();
                    return Ok(());
                }
                reader.received(received);
            }
            Err(refusal) => return refuse(stream, refusal, reactor, reader).await,
        }
    }
}

/// Say why, and wait until the client has gone or used up its time: closing with its bytes unread would reset the
/// connection, and the answer might be lost on its way (RFC 9112, 9.6).
async fn refuse(mut stream: Stream, refusal: Refusal, reactor: &Reactor, mut reader: Reader) -> Result<()> {
    reactor.set_deadline(clock::now() + LINGER);
    stream.send(response::refusing(refusal)).await?;
    stream.finish_sending()?;
    let mut ignored = 0;
    while ignored < LINGER_BYTES {
        match stream.receive(reader.room_for_anything()).await? {
            0 => break,
            received => ignored += received,
        }
    }
    Ok(())
}
