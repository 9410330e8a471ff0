//! TLS connections: the client, the server side of accepted connections, and descriptions of certificates and of
//! verification errors. The library is OpenSSL, which most drivers use, or AWS-LC with the same interface.

use super::{Address, Layer, Stream, Tcp, library};
use crate::runtime::Watched;
use crate::settings::{self, SecurityLevel, TlsVersion, Verify};
use base::error::{Class, Failure, Result};
use openssl::bn::BigNum;
use openssl::dh::Dh;
use openssl::error::ErrorStack;
use openssl::ex_data::Index;
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{Id, PKey, Private};
use openssl::ssl::{
    ErrorCode, Ssl, SslContext, SslContextBuilder, SslMethod, SslMode, SslRef, SslSession, SslSessionCacheMode,
    SslStream, SslVerifyMode, SslVersion,
};
use openssl::x509::store::X509StoreBuilder;
use openssl::x509::{X509, X509Ref, X509StoreContextRef, X509VerifyResult};
use record::Security;
use rustix::net::{Shutdown, shutdown};
use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// The TLS settings of an arm (one variant of the experiment), and the sessions that its connections may resume.
pub struct TlsClient {
    context: SslContext,
    verify: Verify,
    resumption: Option<Resumption>,
    /// The last certificate, and the type and size of its key, such as `rsa-2048`. They are cached because decoding the
    /// key costs a tenth of the time of a handshake, and a server usually has only one certificate.
    last_key: Mutex<Option<(Vec<u8>, String)>>,
}

/// The newest TLS session of each server, for resumption. The keys of `sessions` are the servers' addresses. OpenSSL
/// stores the address with each connection, as extra data with the index `server`.
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
    pub fn new(settings: &settings::Tls, mode: SslMode, protocol: Option<&str>) -> Result<TlsClient> {
        let mut builder = context(settings.version, settings.verify).map_err(|error| misconfigured(&error))?;
        builder.set_mode(mode);
        if let Some(protocol) = protocol {
            let list = [&[protocol.len() as u8], protocol.as_bytes()].concat();
            builder.set_alpn_protos(&list).map_err(|error| misconfigured(&error))?;
        }
        if let Some(level) = settings.security_level.or(settings.cipher.as_ref().map(|_| SecurityLevel::ANYTHING)) {
            library::set_security_level(&mut builder, level.number());
        }
        if let Some(suite) = &settings.cipher {
            offer_only(&mut builder, suite, settings.version)?;
        }
        if let Some(group) = settings.group {
            builder.set_groups_list(group.name()).map_err(|_| {
                let detail = format!("{} has no group {}", library::label(), group.name());
                Failure::new(Class::TlsConfiguration, detail)
            })?;
        }
        match &settings.ca_file {
            Some(path) => trust_file(&mut builder, path)?,
            // Without verification, load no authorities. With loaded authorities OpenSSL would still build a
            // certificate chain, and would lengthen each handshake by searching the system's folder for each issuer.
            None if settings.verify == Verify::None => {}
            None => builder.set_default_verify_paths().map_err(|error| misconfigured(&error))?,
        }
        if let Some(path) = &settings.certificate_file {
            present(&mut builder, path, path)?;
        }
        let resumption = if settings.resumption { Some(Resumption::new(&mut builder)?) } else { None };
        Ok(TlsClient { context: builder.build(), verify: settings.verify, resumption, last_key: Mutex::default() })
    }

    pub async fn handshake(&self, tcp: Tcp, server: &Address) -> Result<SslStream<Tcp>> {
        let ssl = self.prepare(server).map_err(|error| misconfigured(&error))?;
        let received_before = tcp.traffic().bytes_received;
        let mut stream = SslStream::new(ssl, tcp).map_err(|error| misconfigured(&error))?;
        forget_objection();
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
            chain: ssl.peer_cert_chain().map_or(0, |chain| chain.len()),
            verified: self.verify != Verify::None && ssl.verify_result() == X509VerifyResult::OK,
            group: library::group_name(ssl),
            resumed: ssl.session_reused(),
        }
    }

    fn key_name(&self, peer: &X509Ref) -> String {
        let Ok(text) = peer.to_der() else { return key_name(peer) };
        let mut last = self.last_key.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((known, name)) if *known == text => name.clone(),
            _ => {
                let name = key_name(peer);
                *last = Some((text, name.clone()));
                name
            }
        }
    }

    fn prepare(&self, server: &Address) -> std::result::Result<Ssl, ErrorStack> {
        let mut ssl = Ssl::new(&self.context)?;
        match server.ip() {
            // An IP address is verified, but not sent as a server name (RFC 6066, 3).
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
        _ => builder.set_verify_callback(SslVerifyMode::PEER, remember_objection),
    }
    // Reading ahead halves the number of system calls: OpenSSL otherwise reads a record's header and body separately.
    builder.set_read_ahead(true);
    builder.set_session_cache_mode(SslSessionCacheMode::OFF);
    Ok(builder)
}

/// Offer only the cipher suite `suite`. The maximum version becomes TLS 1.2, because TLS 1.3 has other suites. If
/// `version` is None, versions before TLS 1.2 are offered too, because old suites belong to these versions.
fn offer_only(builder: &mut SslContextBuilder, suite: &str, version: Option<TlsVersion>) -> Result<()> {
    let unusable = |why: &str| Failure::new(Class::TlsConfiguration, format!("the cipher suite '{suite}' {why}"));
    if version == Some(TlsVersion::V1_3) {
        return Err(unusable("cannot be used with TLS 1.3; remove the cipher or choose version 1.2"));
    }
    // The name of a cipher suite contains a hyphen. OpenSSL's names for groups of suites, such as `HIGH`, do not.
    // Characters other than letters, digits and hyphens belong to the syntax of cipher lists.
    let is_name = suite.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if !is_name || !suite.trim_matches('-').contains('-') || suite.starts_with('-') {
        return Err(unusable("is not a name such as DHE-RSA-AES256-SHA"));
    }
    builder.set_cipher_list(suite).map_err(|_| unusable(&format!("is unknown to {} for TLS 1.2", library::label())))?;
    if version.is_none() {
        builder.set_min_proto_version(None).map_err(|error| misconfigured(&error))?;
    }
    builder.set_max_proto_version(Some(SslVersion::TLS1_2)).map_err(|error| misconfigured(&error))
}

impl Resumption {
    fn new(builder: &mut SslContextBuilder) -> Result<Self> {
        let server = Ssl::new_ex_index::<String>().map_err(|error| misconfigured(&error))?;
        let sessions = Arc::new(Mutex::new(HashMap::<String, SslSession>::new()));
        let store = sessions.clone();
        builder.set_session_cache_mode(SslSessionCacheMode::CLIENT | SslSessionCacheMode::NO_INTERNAL);
        builder.set_new_session_callback(move |ssl, session| {
            if let (Some(server), Ok(session)) = (ssl.ex_data(server), library::copy(&session)) {
                store.lock().unwrap_or_else(PoisonError::into_inner).insert(server.clone(), session);
            }
        });
        Ok(Resumption { sessions, server })
    }

    fn offer(&self, ssl: &mut Ssl, server: String) -> std::result::Result<(), ErrorStack> {
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = sessions.get(&server) {
            // SAFETY: the session came from a connection of the same context.
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
        // OpenSSL reports the end of a stream without close_notify as an error without a cause.
        None if error.code() == ErrorCode::SYSCALL => Failure::closed(),
        None if is_unexpected_end(error) => Failure::closed(),
        None => Failure::protocol(format!("TLS: {}", reasons(error))),
    }
}

/// Return the failure for a failed TLS handshake. `silent` means that the server had not sent a single byte.
fn failed_handshake(error: &openssl::ssl::Error, ssl: &SslRef, server: &Address, silent: bool) -> Failure {
    if let Some(objection) = take_objection() {
        return objection.into_failure(server);
    }
    if silent && error.ssl_error().is_none_or(|_| is_unexpected_end(error)) {
        let detail = "the server ended the connection instead of answering a TLS handshake: it may not speak TLS";
        return Failure::new(Class::TlsRefused, detail);
    }
    if error.ssl_error().is_none() || is_unexpected_end(error) {
        return broken(error);
    }
    let reasons = reasons(error);
    if ["wrong version number", "packet length too long", "http request"].iter().any(|part| reasons.contains(part)) {
        return Failure::new(Class::TlsRefused, format!("the server's answer is not TLS ({reasons})"));
    }
    if ssl.verify_result() != X509VerifyResult::OK && reasons.contains("certificate verify failed") {
        return Failure::new(Class::TlsCertificateUntrusted, ssl.verify_result().error_string());
    }
    Failure::new(Class::TlsHandshake, format!("the TLS handshake failed: {reasons}"))
}

fn is_unexpected_end(error: &openssl::ssl::Error) -> bool {
    reasons(error).contains("unexpected eof")
}

fn reasons(error: &openssl::ssl::Error) -> String {
    error.ssl_error().map_or_else(|| "no reason given".into(), describe)
}

fn describe(stack: &ErrorStack) -> String {
    let reasons: Vec<_> = stack.errors().iter().filter_map(|error| error.reason()).collect();
    // AWS-LC writes "WRONG_VERSION_NUMBER", and OpenSSL writes "wrong version number". Give both the same form.
    if reasons.is_empty() { "no reason given".into() } else { reasons.join(", ").to_lowercase().replace('_', " ") }
}

fn misconfigured(stack: &ErrorStack) -> Failure {
    Failure::new(Class::TlsConfiguration, format!("{} rejects the TLS settings: {}", library::label(), describe(stack)))
}

/// The reason why a certificate was rejected. It is recorded while OpenSSL still has the certificate.
pub(super) struct Objection {
    class: Class,
    detail: String,
    /// The names in the certificate, if the server's name is not one of them.
    names: Option<String>,
}

thread_local! {
    /// The reason for which the last certificate was rejected. After a failed handshake the certificate is gone. The
    /// verification callback therefore records the reason while the handshake fails, on the same thread.
    static OBJECTION: Cell<Option<Objection>> = const { Cell::new(None) };
}

pub(super) fn forget_objection() {
    OBJECTION.set(None);
}

pub(super) fn take_objection() -> Option<Objection> {
    OBJECTION.take()
}

pub(super) fn remember_objection(accepted: bool, store: &mut X509StoreContextRef) -> bool {
    if !accepted {
        OBJECTION.set(Some(Objection::new(store)));
    }
    accepted
}

impl Objection {
    fn new(store: &X509StoreContextRef) -> Self {
        let error = store.error();
        let certificate = store.current_cert();
        let reason = error.error_string();
        // The numbers are OpenSSL's X509_V_ERR_* (x509_vfy.h), stable since OpenSSL 1.0.2.
        let (class, detail) = match error.as_raw() {
            62 | 64 => (Class::TlsCertificateName, String::new()),
            10 => (Class::TlsCertificateExpired, format!("the certificate expired: {}", dates(certificate))),
            9 => (Class::TlsCertificateExpired, format!("the certificate is not valid yet: {}", dates(certificate))),
            _ => (Class::TlsCertificateUntrusted, format!("the certificate is not trusted: {reason}")),
        };
        let names = certificate.filter(|_| class == Class::TlsCertificateName).map(names);
        Objection { class, detail, names }
    }

    pub(super) fn into_failure(self, server: &Address) -> Failure {
        let Some(names) = self.names else { return Failure::new(self.class, self.detail) };
        let host = server.host();
        Failure::new(self.class, format!("the host is {host}, but the certificate is for {names}"))
    }
}

fn dates(certificate: Option<&X509Ref>) -> String {
    match certificate {
        Some(it) => format!("notBefore {}, notAfter {}", it.not_before(), it.not_after()),
        None => "validity dates unknown".into(),
    }
}

/// Return the names and addresses in a certificate's subjectAltName. If there is no subjectAltName, return the common
/// name.
fn names(certificate: &X509Ref) -> String {
    let mut names = Vec::new();
    for name in certificate.subject_alt_names().iter().flatten() {
        match (name.dnsname(), name.ipaddress().and_then(ip)) {
            (Some(dns), _) => names.push(dns.to_owned()),
            (None, Some(ip)) => names.push(ip.to_string()),
            (None, None) => {}
        }
    }
    if names.is_empty() {
        let common = certificate.subject_name().entries_by_nid(Nid::COMMONNAME);
        names.extend(common.filter_map(|entry| entry.data().to_string().ok()));
    }
    if names.is_empty() { "no name".into() } else { names.join(", ") }
}

fn ip(octets: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(octets).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from)).ok()
}

pub(super) fn key_name(certificate: &X509Ref) -> String {
    let Ok(key) = certificate.public_key() else { return "unreadable".into() };
    match key.id() {
        Id::RSA => format!("rsa-{}", key.bits()),
        Id::EC => match key.ec_key().ok().and_then(|ec| ec.group().curve_name()) {
            Some(Nid::X9_62_PRIME256V1) => "ecdsa-p256".into(),
            Some(Nid::SECP384R1) => "ecdsa-p384".into(),
            Some(Nid::SECP521R1) => "ecdsa-p521".into(),
            _ => format!("ecdsa-{}", key.bits()),
        },
        Id::ED25519 => "ed25519".into(),
        // AWS-LC does not support Ed448.
        #[cfg(not(feature = "aws-lc"))]
        Id::ED448 => "ed448".into(),
        _ => format!("other-{}", key.bits()),
    }
}

/// Return the data of channel binding `tls-server-end-point` (RFC 5929, 4.1): the hash of the certificate, computed
/// with the hash algorithm of the certificate's signature. SHA-256 replaces MD5 and SHA-1. Return None if the signature
/// does not name a hash algorithm, as with Ed25519.
pub(super) fn end_point(certificate: &X509Ref) -> Option<Vec<u8>> {
    let signature = certificate.signature_algorithm().object().nid().signature_algorithms()?;
    let hash = match signature.digest {
        Nid::UNDEF => return None,
        Nid::MD5 | Nid::SHA1 => MessageDigest::sha256(),
        digest => MessageDigest::from_nid(digest)?,
    };
    certificate.digest(hash).ok().map(|hashed| hashed.to_vec())
}

/// Trust only the authorities in this PEM file.
/// Errors: class `tls_configuration` if the file cannot be read or contains no certificate.
pub(super) fn trust_file(builder: &mut SslContextBuilder, path: &Path) -> Result<()> {
    let shown = path.display();
    let failure = |reason: String| Failure::new(Class::TlsConfiguration, format!("CA file {shown}: {reason}"));
    let pem = std::fs::read(path).map_err(|error| failure(error.to_string()))?;
    let authorities = X509::stack_from_pem(&pem).map_err(|_| failure("not a PEM certificate".into()))?;
    if authorities.is_empty() {
        return Err(failure("holds no PEM certificate".into()));
    }
    let mut store = X509StoreBuilder::new().map_err(|error| failure(error.to_string()))?;
    for authority in authorities {
        store.add_cert(authority).map_err(|error| failure(error.to_string()))?;
    }
    builder.set_cert_store(store.build());
    Ok(())
}

/// All cipher suites of TLS 1.2 and earlier versions, including those that OpenSSL's security levels reject.
const EARLIER_SUITES: &str = "ALL:@SECLEVEL=0";

/// The TLS settings of a listener, shared by all threads. The client may choose any version and cipher suite.
pub struct TlsServer {
    context: SslContext,
}

/// The outcome of a TLS handshake on the server's side.
pub struct Handshake {
    /// The TLS version by OpenSSL's name, such as `TLSv1.3`.
    pub version: &'static str,
    pub resumed: bool,
}

impl TlsServer {
    /// Load a certificate and its key from PEM files. The certificate's file may also contain its chain and the key.
    /// Errors: class `tls_configuration`, with the name of the file.
    pub fn new(certificate_file: &Path, key_file: &Path) -> Result<Self> {
        let mut builder = server_context().map_err(|error| misconfigured(&error))?;
        present(&mut builder, certificate_file, key_file)?;
        Ok(TlsServer { context: builder.build() })
    }
}

impl Stream {
    pub fn accepted(watched: Watched) -> Self {
        Stream { layer: Layer::Plain(Tcp::accepted(watched)) }
    }

    pub async fn secure_as_server(self, server: &TlsServer) -> Result<(Self, Handshake)> {
        let Layer::Plain(tcp) = self.layer else { return Err(Failure::protocol("TLS is already active")) };
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
        let handshake = Handshake { version: stream.ssl().version_str(), resumed: stream.ssl().session_reused() };
        Ok((Stream { layer: Layer::Tls(stream) }, handshake))
    }

    /// Tell the peer that no more bytes follow. The peer may still send. Errors: the connection was reset.
    pub fn finish_sending(&mut self) -> Result<()> {
        if let Layer::Tls(stream) = &mut self.layer {
            let _ = stream.shutdown();
        }
        Ok(shutdown(self.tcp().watched(), Shutdown::Write)?)
    }
}

/// Load the certificate, its chain and its key from PEM files, for connections to present to their peers.
/// Errors: class `tls_configuration`, with the name of the file.
fn present(builder: &mut SslContextBuilder, certificate_file: &Path, key_file: &Path) -> Result<()> {
    let chain = read_pem(certificate_file, "certificate", X509::stack_from_pem)?;
    // With an empty passphrase OpenSSL does not prompt for one.
    let key = read_pem(key_file, "key", |pem| PKey::private_key_from_pem_passphrase(pem, b""))?;
    if chain.is_empty() {
        return Err(file_failure(certificate_file, "holds no PEM certificate"));
    }
    use_certificate(builder, chain, &key)
        .map_err(|error| file_failure(certificate_file, &format!("does not match {}: {error}", key_file.display())))
}

fn use_certificate(
    builder: &mut SslContextBuilder,
    chain: Vec<X509>,
    key: &PKey<Private>,
) -> std::result::Result<(), ErrorStack> {
    let mut chain = chain.into_iter();
    if let Some(leaf) = chain.next() {
        builder.set_certificate(&leaf)?;
    }
    chain.try_for_each(|issuer| builder.add_extra_chain_cert(issuer))?;
    builder.set_private_key(key)?;
    builder.check_private_key()
}

fn server_context() -> std::result::Result<SslContextBuilder, ErrorStack> {
    let mut builder = SslContextBuilder::new(SslMethod::tls_server())?;
    builder.set_min_proto_version(Some(SslVersion::TLS1))?;
    library::set_security_level(&mut builder, 0);
    builder.set_cipher_list(EARLIER_SUITES)?;
    library::accept_all_tls13_suites(&mut builder)?;
    builder.set_tmp_dh(dh_2048()?.as_ref())?;
    // Clients store their session tickets themselves; a server's cache would grow with each connection.
    builder.set_session_cache_mode(SslSessionCacheMode::OFF);
    builder.set_read_ahead(true);
    // Idle connections free OpenSSL's two buffers of 16 KiB.
    builder.set_mode(SslMode::RELEASE_BUFFERS);
    Ok(builder)
}

/// Return the 2048-bit Diffie-Hellman group of RFC 3526, which OpenSSL itself chooses for a 2048-bit RSA key
/// (`SSL_CTX_set_dh_auto`). Here the group is the same for every key. Otherwise variants of an experiment with
/// different key sizes would also differ in the group.
fn dh_2048() -> std::result::Result<Dh<openssl::pkey::Params>, ErrorStack> {
    Dh::from_pqg(BigNum::get_rfc3526_prime_2048()?, None, BigNum::from_u32(2)?)
}

fn read_pem<T>(path: &Path, what: &str, parse: impl Fn(&[u8]) -> std::result::Result<T, ErrorStack>) -> Result<T> {
    let pem = std::fs::read(path).map_err(|error| file_failure(path, &error.to_string()))?;
    parse(&pem).map_err(|_| file_failure(path, &format!("not a PEM {what}")))
}

fn file_failure(path: &Path, reason: &str) -> Failure {
    Failure::new(Class::TlsConfiguration, format!("{}: {reason}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(cipher: &str, version: Option<TlsVersion>) -> Result<TlsClient> {
        let cipher = Some(cipher.to_owned());
        let (verify, resumption) = (Verify::None, false);
        let settings = settings::Tls {
            ca_file: None,
            certificate_file: None,
            version,
            verify,
            resumption,
            cipher,
            security_level: None,
            group: None,
        };
        TlsClient::new(&settings, SslMode::empty(), None)
    }

    #[test]
    fn client_can_offer_legacy_cipher_suites() {
        client("AES256-SHA", None).unwrap();
        // AWS-LC has no suite with DHE.
        assert_eq!(client("DHE-RSA-AES256-SHA", None).is_ok(), !cfg!(feature = "aws-lc"));
    }

    #[test]
    fn cipher_setting_must_be_exactly_one_known_cipher_suite() {
        for suite in ["NO-SUCH-SUITE", "TLS_AES_256_GCM_SHA384", "HIGH", "AES256-SHA:ALL", "-AES256-SHA", "AES-", ""] {
            let failure = client(suite, None).unwrap_err();
            assert_eq!(failure.class, Class::TlsConfiguration, "{suite}");
            assert!(failure.detail.contains(&format!("'{suite}'")), "{failure}");
        }
        assert_eq!(client("AES256-SHA", Some(TlsVersion::V1_3)).unwrap_err().class, Class::TlsConfiguration);
    }
}
