//! The other end: connections that a listener took, plain or under TLS.

use super::{Layer, Stream, Tcp, library};
use crate::runtime::Watched;
use base::error::{Class, Failure, Result};
use openssl::bn::BigNum;
use openssl::dh::Dh;
use openssl::error::ErrorStack;
use openssl::pkey::{PKey, Private};
use openssl::ssl::{
    ErrorCode, Ssl, SslContext, SslContextBuilder, SslMethod, SslMode, SslSessionCacheMode, SslStream, SslVersion,
};
use openssl::x509::X509;
use rustix::net::{Shutdown, shutdown};
use std::path::Path;

const EARLIER_SUITES: &str = "ALL:@SECLEVEL=0";

/// The TLS settings of a listener, which leave everything to the client; shared by all threads.
pub struct TlsServer {
    context: SslContext,
}

/// What a handshake came to.
pub struct Handshake {
    /// As OpenSSL says it: `TLSv1.3`.
    pub version: &'static str,
    pub resumed: bool,
}

impl TlsServer {
    /// From PEM files; the certificate's may hold its chain after it, and the key.
    /// Errors: `tls_configuration`, naming the file.
    pub fn new(certificate_file: &Path, key_file: &Path) -> Result<Self> {
        let chain = read(certificate_file, "certificate", X509::stack_from_pem)?;
        // An empty passphrase, lest OpenSSL ask a terminal for one.
        let key = read(key_file, "key", |pem| PKey::private_key_from_pem_passphrase(pem, b""))?;
        if chain.is_empty() {
            return Err(wrong(certificate_file, "holds no PEM certificate"));
        }
        let context = context(chain, &key)
            .map_err(|error| wrong(certificate_file, &format!("does not go with {}: {error}", key_file.display())))?;
        Ok(TlsServer { context })
    }
}

impl Stream {
    pub fn accepted(watched: Watched) -> Self {
        Stream { layer: Layer::Plain(Tcp::accepted(watched)) }
    }

    pub async fn secure_as_server(self, server: &TlsServer) -> Result<(Self, Handshake)> {
        let Layer::Plain(tcp) = self.layer else { return Err(Failure::protocol("TLS was asked for twice")) };
        let failed = |error: &dyn std::fmt::Display| Failure::new(Class::TlsHandshake, error.to_string());
        let ssl = Ssl::new(&server.context).map_err(|error| failed(&error))?;
        let mut stream = SslStream::new(ssl, tcp).map_err(|error| failed(&error))?;
        while let Err(error) = stream.accept() {
            match error.code() {
                ErrorCode::WANT_READ => stream.get_ref().watched().readable().await?,
                ErrorCode::WANT_WRITE => stream.get_ref().watched().writable().await?,
                _ => return Err(failed(&error)),
            }
        }
        let made = Handshake { version: stream.ssl().version_str(), resumed: stream.ssl().session_reused() };
        Ok((Stream { layer: Layer::Tls(stream) }, made))
    }

    /// Say that nothing more will be sent. The other side may still send.
    /// Errors: where the connection has been reset.
    pub fn finish_sending(&mut self) -> Result<()> {
        if let Layer::Tls(stream) = &mut self.layer {
            let _ = stream.shutdown();
        }
        Ok(shutdown(self.tcp().watched(), Shutdown::Write)?)
    }
}

fn context(chain: Vec<X509>, key: &PKey<Private>) -> std::result::Result<SslContext, ErrorStack> {
    let mut builder = SslContextBuilder::new(SslMethod::tls_server())?;
    builder.set_min_proto_version(Some(SslVersion::TLS1))?;
    library::set_security_level(&mut builder, 0);
    builder.set_cipher_list(EARLIER_SUITES)?;
    library::take_all_suites_of_1_3(&mut builder)?;
    builder.set_tmp_dh(dh_2048()?.as_ref())?;
    let mut chain = chain.into_iter();
    if let Some(own) = chain.next() {
        builder.set_certificate(&own)?;
    }
    chain.try_for_each(|issuer| builder.add_extra_chain_cert(issuer))?;
    builder.set_private_key(key)?;
    builder.check_private_key()?;
    // Tickets are kept by the clients; sessions kept here would be memory for each connection there ever was.
    builder.set_session_cache_mode(SslSessionCacheMode::OFF);
    builder.set_read_ahead(true);
    // A connection that is idle holds none of OpenSSL's two buffers of 16 KiB.
    builder.set_mode(SslMode::RELEASE_BUFFERS);
    Ok(builder.build())
}

/// The 2048-bit group of RFC 3526, which is what OpenSSL itself picks beside a 2048-bit RSA key (`SSL_CTX_set_dh_auto`).
/// It is the same for every key, so that a larger one does not bring a larger group with it.
fn dh_2048() -> std::result::Result<Dh<openssl::pkey::Params>, ErrorStack> {
    Dh::from_pqg(BigNum::get_rfc3526_prime_2048()?, None, BigNum::from_u32(2)?)
}

fn read<T>(path: &Path, what: &str, parse: impl Fn(&[u8]) -> std::result::Result<T, ErrorStack>) -> Result<T> {
    let pem = std::fs::read(path).map_err(|error| wrong(path, &error.to_string()))?;
    parse(&pem).map_err(|_| wrong(path, &format!("not a PEM {what}")))
}

fn wrong(path: &Path, why: &str) -> Failure {
    Failure::new(Class::TlsConfiguration, format!("{}: {why}", path.display()))
}
