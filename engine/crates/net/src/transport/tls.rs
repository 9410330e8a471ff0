//! TLS by OpenSSL, since that is what most drivers link, or a library that is called as it is, over our own counting connection.

use super::{Address, Tcp};
use super::{certificate, library};
use crate::settings::{self, SecurityLevel, TlsVersion, Verify};
use base::error::{Class, Failure, Result};
use openssl::error::ErrorStack;
use openssl::ex_data::Index;
use openssl::ssl::{
    ErrorCode, Ssl, SslContext, SslContextBuilder, SslMethod, SslMode, SslRef, SslSession, SslSessionCacheMode,
    SslStream, SslVerifyMode, SslVersion,
};
use openssl::x509::{X509Ref, X509VerifyResult};
use record::Security;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The TLS settings of an arm, and the sessions it may resume.
pub struct TlsClient {
    context: SslContext,
    verify: Verify,
    resumption: Option<Resumption>,
    /// The certificate seen last and its key's name: to decode a key costs a tenth of a handshake, and a server shows one.
    last_key: Mutex<Option<(Vec<u8>, String)>>,
}

/// Sessions to resume, the newest of each server (its address is the connection's extra data).
struct Resumption {
    sessions: Arc<Mutex<HashMap<String, SslSession>>>,
    server: Index<Ssl, String>,
}

impl fmt::Debug for TlsClient {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "TlsClient {{ verify: {:?}, resumption: {} }}", self.verify, self.resumption.is_some())
    }
}

impl TlsClient {
    pub fn new(settings: &settings::Tls) -> Result<TlsClient> {
        Self::build(settings, SslMode::empty(), None)
    }

    /// As `new`, naming the protocol that is spoken (RFC 7301).
    pub fn speaking(settings: &settings::Tls, protocol: &'static str) -> Result<TlsClient> {
        Self::build(settings, SslMode::empty(), Some(protocol))
    }

    /// As `new`, for thousands of connections: an idle one gives its 16 KiB of buffers back.
    pub fn for_many(settings: &settings::Tls) -> Result<TlsClient> {
        Self::build(settings, SslMode::RELEASE_BUFFERS, None)
    }

    fn build(settings: &settings::Tls, mode: SslMode, protocol: Option<&str>) -> Result<TlsClient> {
        let mut builder = context(settings.version, settings.verify).map_err(|error| misconfigured(&error))?;
        builder.set_mode(mode);
        if let Some(protocol) = protocol {
            let named = [&[protocol.len() as u8], protocol.as_bytes()].concat();
            builder.set_alpn_protos(&named).map_err(|error| misconfigured(&error))?;
        }
        if let Some(level) = settings.security_level.or(settings.cipher.as_ref().map(|_| SecurityLevel::ANYTHING)) {
            library::set_security_level(&mut builder, level.number());
        }
        if let Some(suite) = &settings.cipher {
            offer_alone(&mut builder, suite, settings.version)?;
        }
        if let Some(group) = settings.group {
            builder.set_groups_list(group.name()).map_err(|_| {
                let lacking = format!("{} has no group {}", library::named(), group.name());
                Failure::new(Class::TlsConfiguration, lacking)
            })?;
        }
        match &settings.ca_file {
            Some(path) => certificate::trust_file(&mut builder, path)?,
            // OpenSSL builds a chain all the same, and looks for an unknown issuer through the system's whole folder each time.
            None if settings.verify == Verify::None => {}
            None => builder.set_default_verify_paths().map_err(|error| misconfigured(&error))?,
        }
        let resumption = if settings.resumption { Some(Resumption::new(&mut builder)?) } else { None };
        Ok(TlsClient { context: builder.build(), verify: settings.verify, resumption, last_key: Mutex::default() })
    }

    pub async fn handshake(&self, tcp: Tcp, server: &Address) -> Result<SslStream<Tcp>> {
        let ssl = self.prepare(server).map_err(|error| misconfigured(&error))?;
        let received_before = tcp.traffic().bytes_received;
        let mut stream = SslStream::new(ssl, tcp).map_err(|error| misconfigured(&error))?;
        certificate::forget_objection();
        loop {
            let Err(error) = stream.connect() else { return Ok(stream) };
            match error.code() {
                ErrorCode::WANT_READ => stream.get_ref().watched().readable().await?,
                ErrorCode::WANT_WRITE => stream.get_ref().watched().writable().await?,
                _ => {
                    let silent = stream.get_ref().traffic().bytes_received == received_before;
                    return Err(failed_handshake(&error, stream.ssl(), server, silent));
                }
            }
        }
    }

    pub fn security(&self, ssl: &SslRef) -> Security {
        Security {
            protocol: ssl.version_str(),
            cipher: ssl.current_cipher().map_or("none", |cipher| cipher.name()),
            key: ssl.peer_certificate().map_or_else(|| "none".into(), |peer| self.key_name(&peer)),
            verified: self.verify != Verify::None && ssl.verify_result() == X509VerifyResult::OK,
            group: library::group_name(ssl),
            resumed: ssl.session_reused(),
        }
    }

    fn key_name(&self, peer: &X509Ref) -> String {
        let Ok(text) = peer.to_der() else { return certificate::key_name(peer) };
        let mut last = self.last_key.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((known, name)) if *known == text => name.clone(),
            _ => {
                let name = certificate::key_name(peer);
                *last = Some((text, name.clone()));
                name
            }
        }
    }

    fn prepare(&self, server: &Address) -> std::result::Result<Ssl, ErrorStack> {
        let mut ssl = Ssl::new(&self.context)?;
        match server.ip() {
            // RFC 6066, 3: an address is not sent as a server name.
            Some(ip) if self.verify == Verify::Full => ssl.param_mut().set_ip(ip)?,
            Some(_) => {}
            None => {
                ssl.set_hostname(server.host())?;
                if self.verify == Verify::Full {
                    ssl.param_mut().set_host(server.host())?;
                }
            }
        }
        if let Some(resumption) = &self.resumption {
            resumption.offer(&mut ssl, server.to_string())?;
        }
        Ok(ssl)
    }
}

fn context(version: Option<TlsVersion>, verify: Verify) -> std::result::Result<SslContextBuilder, ErrorStack> {
    let mut builder = SslContextBuilder::new(SslMethod::tls_client())?;
    let pinned = version.map(|version| match version {
        TlsVersion::V1_2 => SslVersion::TLS1_2,
        TlsVersion::V1_3 => SslVersion::TLS1_3,
    });
    builder.set_min_proto_version(pinned.or(Some(SslVersion::TLS1_2)))?;
    builder.set_max_proto_version(pinned)?;
    match verify {
        Verify::None => builder.set_verify(SslVerifyMode::NONE),
        _ => builder.set_verify_callback(SslVerifyMode::PEER, certificate::remember_objection),
    }
    // One read takes a whole record, or several: half the system calls of reading a header, then its body.
    builder.set_read_ahead(true);
    builder.set_session_cache_mode(SslSessionCacheMode::OFF);
    Ok(builder)
}

/// Offer one suite and no other, with TLS 1.2 at most: later versions name their suites differently, and earlier ones
/// are what such suites were published with.
fn offer_alone(builder: &mut SslContextBuilder, suite: &str, version: Option<TlsVersion>) -> Result<()> {
    let unusable = |why: &str| Failure::new(Class::TlsConfiguration, format!("the cipher suite '{suite}' {why}"));
    if version == Some(TlsVersion::V1_3) {
        return Err(unusable("cannot be asked for with TLS 1.3, whose suites are its own"));
    }
    // OpenSSL's words for groups of suites have no hyphen within, names of suites have; anything else is its syntax.
    let is_name = suite.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if !is_name || !suite.trim_matches('-').contains('-') || suite.starts_with('-') {
        return Err(unusable("is not a name such as DHE-RSA-AES256-SHA"));
    }
    builder
        .set_cipher_list(suite)
        .map_err(|_| unusable(&format!("is not one that {} has for TLS 1.2", library::named())))?;
    if version.is_none() {
        builder.set_min_proto_version(None).map_err(|error| misconfigured(&error))?;
    }
    builder.set_max_proto_version(Some(SslVersion::TLS1_2)).map_err(|error| misconfigured(&error))
}

impl Resumption {
    fn new(builder: &mut SslContextBuilder) -> Result<Self> {
        let server = Ssl::new_ex_index::<String>().map_err(|error| misconfigured(&error))?;
        let sessions = Arc::new(Mutex::new(HashMap::<String, SslSession>::new()));
        let kept = sessions.clone();
        builder.set_session_cache_mode(SslSessionCacheMode::CLIENT | SslSessionCacheMode::NO_INTERNAL);
        builder.set_new_session_callback(move |ssl, session| {
            if let (Some(server), Ok(session)) = (ssl.ex_data(server), library::copy(&session)) {
                kept.lock().unwrap_or_else(PoisonError::into_inner).insert(server.clone(), session);
            }
        });
        Ok(Resumption { sessions, server })
    }

    fn offer(&self, ssl: &mut Ssl, server: String) -> std::result::Result<(), ErrorStack> {
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = sessions.get(&server) {
            // SAFETY: the session came from a connection of this very context.
            unsafe { ssl.set_session(&*library::copy(session)?)? };
        }
        drop(sessions);
        ssl.set_ex_data(self.server, server);
        Ok(())
    }
}

pub(super) fn broken(error: &openssl::ssl::Error) -> Failure {
    match error.io_error() {
        Some(io) => Failure::from_io(io),
        // OpenSSL reports an end of the stream without close_notify as an error without a cause.
        None if error.code() == ErrorCode::SYSCALL => Failure::closed(),
        None if is_unexpected_end(error) => Failure::closed(),
        None => Failure::protocol(format!("TLS: {}", reasons(error))),
    }
}

/// Why a handshake failed. `silent`: the server had not sent a byte by then.
fn failed_handshake(error: &openssl::ssl::Error, ssl: &SslRef, server: &Address, silent: bool) -> Failure {
    if let Some(objection) = certificate::take_objection() {
        return objection.into_failure(server);
    }
    if silent && error.ssl_error().is_none_or(|_| is_unexpected_end(error)) {
        let detail = "the server ended the connection instead of answering a TLS handshake: it may not speak TLS";
        return Failure::new(Class::TlsRefused, detail);
    }
    if error.ssl_error().is_none() || is_unexpected_end(error) {
        return broken(error);
    }
    let words = reasons(error);
    if ["wrong version number", "packet length too long", "http request"].iter().any(|said| words.contains(said)) {
        return Failure::new(Class::TlsRefused, format!("the server's answer is not TLS ({words})"));
    }
    if ssl.verify_result() != X509VerifyResult::OK && words.contains("certificate verify failed") {
        return Failure::new(Class::TlsCertificateUntrusted, ssl.verify_result().error_string());
    }
    Failure::new(Class::TlsHandshake, format!("the TLS handshake failed: {words}"))
}

fn is_unexpected_end(error: &openssl::ssl::Error) -> bool {
    reasons(error).contains("unexpected eof")
}

fn reasons(error: &openssl::ssl::Error) -> String {
    error.ssl_error().map_or_else(|| "no reason given".into(), in_words)
}

fn in_words(stack: &ErrorStack) -> String {
    let words: Vec<_> = stack.errors().iter().filter_map(|error| error.reason()).collect();
    // AWS-LC says "WRONG_VERSION_NUMBER" where OpenSSL says "wrong version number".
    if words.is_empty() { "no reason given".into() } else { words.join(", ").to_lowercase().replace('_', " ") }
}

fn misconfigured(stack: &ErrorStack) -> Failure {
    Failure::new(Class::TlsConfiguration, format!("{} cannot do what is asked: {}", library::named(), in_words(stack)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(cipher: &str, version: Option<TlsVersion>) -> Result<TlsClient> {
        let cipher = Some(cipher.to_owned());
        let (verify, resumption) = (Verify::None, false);
        TlsClient::new(&settings::Tls {
            ca_file: None,
            version,
            verify,
            resumption,
            cipher,
            security_level: None,
            group: None,
        })
    }

    #[test]
    fn the_published_suites_can_be_offered() {
        client("AES256-SHA", None).unwrap();
        // AWS-LC has none with DHE.
        assert_eq!(client("DHE-RSA-AES256-SHA", None).is_ok(), !cfg!(feature = "aws-lc"));
    }

    #[test]
    fn what_is_not_one_suite_of_this_library_is_named() {
        for suite in ["NO-SUCH-SUITE", "TLS_AES_256_GCM_SHA384", "HIGH", "AES256-SHA:ALL", "-AES256-SHA", "AES-", ""] {
            let failure = client(suite, None).unwrap_err();
            assert_eq!(failure.class, Class::TlsConfiguration, "{suite}");
            assert!(failure.detail.contains(&format!("'{suite}'")), "{failure}");
        }
        assert_eq!(client("AES256-SHA", Some(TlsVersion::V1_3)).unwrap_err().class, Class::TlsConfiguration);
    }
}
