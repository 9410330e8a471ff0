//! Which TLS library this is, and all that libraries differ in where crate `openssl` has no word for both.
//!
//! The system's OpenSSL by default; by a feature of Cargo's a static one, or AWS-LC, whose symbols have a prefix, so that its
//! functions are called by the binding and never by their C names.

use crate::settings::Group;
use foreign_types::ForeignTypeRef;
use openssl::error::ErrorStack;
use openssl::ssl::{SslContextBuilder, SslRef, SslSession, SslSessionRef};

pub fn library() -> (&'static str, &'static str) {
    name_and_version(openssl::version::version())
}

/// Of "OpenSSL 3.0.19 27 Jan 2026", and of "OpenSSL 1.1.1 (compatible; AWS-LC 1.66.2)".
fn name_and_version(said: &str) -> (&str, &str) {
    let own = said.split_once("compatible; ").map_or(said, |(_, own)| own.trim_end_matches(')'));
    let (name, rest) = own.split_once(' ').unwrap_or((own, "unknown"));
    (name, rest.split(' ').next().unwrap_or(rest))
}

pub(super) fn named() -> String {
    let (name, version) = library();
    format!("{name} {version}")
}

/// OpenSSL's security level. AWS-LC has none: it leaves weak keys and signatures to nobody's choice.
#[cfg_attr(feature = "aws-lc", expect(clippy::missing_const_for_fn, unused_variables, reason = "nothing to set"))]
pub(super) fn set_security_level(builder: &mut SslContextBuilder, level: u32) {
    #[cfg(not(feature = "aws-lc"))]
    builder.set_security_level(level);
}

/// What a server takes with TLS 1.3: all of it. OpenSSL's own choice leaves CCM out, and AWS-LC has no CCM.
pub(super) fn take_all_suites_of_1_3(builder: &mut SslContextBuilder) -> Result<(), ErrorStack> {
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

/// IANA's number of the group (registry "TLS Supported Groups"); 0 where there is none.
#[cfg(feature = "aws-lc")]
fn group_number(ssl: &SslRef) -> i32 {
    // SAFETY: reads a field of a connection that lives through the call.
    i32::from(unsafe { openssl_sys::SSL_get_curve_id(ssl.as_ptr()) })
}

/// IANA's number of the group (registry "TLS Supported Groups"); 0 where there is none, or it is no group of ours.
#[cfg(not(feature = "aws-lc"))]
fn group_number(ssl: &SslRef) -> i32 {
    // SSL_get_negotiated_group(3): a NID, or the number with a bit of its own where OpenSSL has no NID (ssl.h, tls1.h).
    const GET_NEGOTIATED_GROUP: i32 = 134;
    const NO_NID: i32 = 0x0100_0000;
    // SAFETY: reads a field of a connection that lives through the call.
    let found = unsafe { openssl_sys::SSL_ctrl(ssl.as_ptr(), GET_NEGOTIATED_GROUP, 0, std::ptr::null_mut()) };
    match i32::try_from(found).unwrap_or(0) {
        openssl_sys::NID_X9_62_prime256v1 => 23,
        openssl_sys::NID_X25519 => 29,
        number if number & NO_NID != 0 => number ^ NO_NID,
        _ => 0,
    }
}

/// A session that no connection shares. AWS-LC's do not change once they are made.
#[cfg(feature = "aws-lc")]
pub(super) fn copy(session: &SslSessionRef) -> Result<SslSession, ErrorStack> {
    Ok(session.to_owned())
}

/// A session that no connection shares. OpenSSL will not resume one again when a connection that uses it breaks off, even
/// at its regular end without `close_notify`; shared, it would then be lost to all that come after.
#[cfg(not(feature = "aws-lc"))]
pub(super) fn copy(session: &SslSessionRef) -> Result<SslSession, ErrorStack> {
    use foreign_types::ForeignType;

    unsafe extern "C" {
        // SSL_SESSION_dup(3), which openssl-sys leaves out.
        fn SSL_SESSION_dup(session: *const openssl_sys::SSL_SESSION) -> *mut openssl_sys::SSL_SESSION;
    }
    // SAFETY: the session lives through the call; what comes back is ours alone, or null.
    unsafe {
        let copied = SSL_SESSION_dup(session.as_ptr());
        if copied.is_null() { Err(ErrorStack::get()) } else { Ok(SslSession::from_ptr(copied)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_told_from_what_it_says() {
        assert_eq!(name_and_version("OpenSSL 3.0.19 27 Jan 2026"), ("OpenSSL", "3.0.19"));
        assert_eq!(name_and_version("OpenSSL 1.1.1 (compatible; AWS-LC 1.66.2)"), ("AWS-LC", "1.66.2"));
        assert_eq!(name_and_version("LibreSSL"), ("LibreSSL", "unknown"));
    }

    #[test]
    fn the_library_is_the_one_that_was_asked_for() {
        let asked = if cfg!(feature = "aws-lc") { "AWS-LC" } else { "OpenSSL" };
        let (name, version) = library();
        assert_eq!(name, asked);
        assert!(version.starts_with(|first: char| first.is_ascii_digit()), "{version}");
        assert!(!cfg!(feature = "openssl-3.5") || version.starts_with("3.5."), "{version}");
    }
}
