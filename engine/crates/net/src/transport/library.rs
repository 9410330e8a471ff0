//! The TLS library, and the differences between the supported libraries that crate `openssl` does not hide.
//!
//! The default is the system's OpenSSL. Cargo features select a statically linked OpenSSL or AWS-LC. The symbols of
//! AWS-LC have a prefix, so its functions are called through `openssl_sys` and never by their C names.

use crate::settings::Group;
use foreign_types::ForeignTypeRef;
use openssl::error::ErrorStack;
use openssl::ssl::{SslContextBuilder, SslRef, SslSession, SslSessionRef};

/// Return the name and version of the TLS library.
pub fn library() -> (&'static str, &'static str) {
    name_and_version(openssl::version::version())
}

/// Return the name and version in texts such as "OpenSSL 3.0.19 27 Jan 2026" or "OpenSSL 1.1.1 (compatible; AWS-LC
/// 1.66.2)".
fn name_and_version(text: &str) -> (&str, &str) {
    let library = text.split_once("compatible; ").map_or(text, |(_, library)| library.trim_end_matches(')'));
    let (name, rest) = library.split_once(' ').unwrap_or((library, "unknown"));
    (name, rest.split(' ').next().unwrap_or(rest))
}

/// Return the name and version of the TLS library, for messages.
pub(super) fn label() -> String {
    let (name, version) = library();
    format!("{name} {version}")
}

/// Set OpenSSL's security level. With AWS-LC do nothing, because it has no such levels.
#[cfg_attr(feature = "aws-lc", expect(clippy::missing_const_for_fn, unused_variables, reason = "nothing to set"))]
pub(super) fn set_security_level(builder: &mut SslContextBuilder, level: u32) {
    #[cfg(not(feature = "aws-lc"))]
    builder.set_security_level(level);
}

/// Make a server accept all TLS 1.3 cipher suites, because OpenSSL's default list omits the CCM suites. With AWS-LC do
/// nothing, because it has no CCM suites.
pub(super) fn accept_all_tls13_suites(builder: &mut SslContextBuilder) -> Result<(), ErrorStack> {
    #[cfg(not(feature = "aws-lc"))]
    builder.set_ciphersuites(
        "TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256:\
         TLS_AES_128_CCM_SHA256:TLS_AES_128_CCM_8_SHA256",
    )?;
    let _ = builder;
    Ok(())
}

pub(super) fn group_name(ssl: &SslRef) -> Option<&'static str> {
    match group_number(ssl) {
        23 => Some(Group::Prime256v1.name()),
        29 => Some(Group::X25519.name()),
        4588 => Some(Group::X25519Mlkem768.name()),
        _ => None,
    }
}

/// Return IANA's number of the negotiated group (registry "TLS Supported Groups"), or 0 if no group was negotiated.
#[cfg(feature = "aws-lc")]
fn group_number(ssl: &SslRef) -> i32 {
    // SAFETY: reads a field of a connection that lives through the call.
    i32::from(unsafe { openssl_sys::SSL_get_curve_id(ssl.as_ptr()) })
}

/// Return IANA's number of the negotiated group (registry "TLS Supported Groups"), or 0 if no group was negotiated.
/// OpenSSL reports some groups only by OpenSSL's own number (NID). Of these groups, P-256 and X25519 are converted to
/// IANA's number, and 0 is returned for all others.
#[cfg(not(feature = "aws-lc"))]
fn group_number(ssl: &SslRef) -> i32 {
    // SSL_get_negotiated_group(3) returns a NID, or IANA's number with the bit NO_NID set (ssl.h, tls1.h).
    const GET_NEGOTIATED_GROUP: i32 = 134;
    const NO_NID: i32 = 0x0100_0000;
    // SAFETY: reads a field of a connection that lives through the call.
    let group = unsafe { openssl_sys::SSL_ctrl(ssl.as_ptr(), GET_NEGOTIATED_GROUP, 0, std::ptr::null_mut()) };
    match i32::try_from(group).unwrap_or(0) {
        openssl_sys::NID_X9_62_prime256v1 => 23,
        openssl_sys::NID_X25519 => 29,
        number if number & NO_NID != 0 => number ^ NO_NID,
        _ => 0,
    }
}

/// Return a session for one connection: the session itself, because sessions of AWS-LC are immutable.
#[cfg(feature = "aws-lc")]
pub(super) fn copy(session: &SslSessionRef) -> Result<SslSession, ErrorStack> {
    Ok(session.to_owned())
}

/// Return a copy of a session for only one connection. OpenSSL marks a session as not resumable when a connection that
/// uses it breaks off or ends without `close_notify`. Later connections could then not resume a shared session.
#[cfg(not(feature = "aws-lc"))]
pub(super) fn copy(session: &SslSessionRef) -> Result<SslSession, ErrorStack> {
    use foreign_types::ForeignType;

    unsafe extern "C" {
        // openssl-sys does not declare SSL_SESSION_dup(3).
        fn SSL_SESSION_dup(session: *const openssl_sys::SSL_SESSION) -> *mut openssl_sys::SSL_SESSION;
    }
    // SAFETY: the session lives through the call; the result is null or exclusively owned.
    unsafe {
        let copied = SSL_SESSION_dup(session.as_ptr());
        if copied.is_null() { Err(ErrorStack::get()) } else { Ok(SslSession::from_ptr(copied)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_and_version_are_parsed_from_the_version_text() {
        assert_eq!(name_and_version("OpenSSL 3.0.19 27 Jan 2026"), ("OpenSSL", "3.0.19"));
        assert_eq!(name_and_version("OpenSSL 1.1.1 (compatible; AWS-LC 1.66.2)"), ("AWS-LC", "1.66.2"));
        assert_eq!(name_and_version("LibreSSL"), ("LibreSSL", "unknown"));
    }

    #[test]
    fn tls_library_is_the_one_that_the_cargo_feature_selects() {
        let expected = if cfg!(feature = "aws-lc") { "AWS-LC" } else { "OpenSSL" };
        let (name, version) = library();
        assert_eq!(name, expected);
        assert!(version.starts_with(|first: char| first.is_ascii_digit()), "{version}");
        assert!(!cfg!(feature = "openssl-3.5") || version.starts_with("3.5."), "{version}");
    }
}
