//! TLS: the parameters of a URL, and what the driver is told.

use std::path::PathBuf;

use lease_core::store::StoreError;
use mysql_async::{ClientIdentity, SslOpts};

use crate::url::invalid;

/// MySQL's `--ssl-mode`, in the order of strictness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Disabled,
    Preferred,
    Required,
    VerifyCa,
    VerifyIdentity,
}

/// What a URL says of TLS.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Tls {
    mode: Option<Mode>,
    ca: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
}

impl Tls {
    /// Takes a parameter of a URL, if it is one of these.
    pub(crate) fn take(&mut self, key: &str, value: &str) -> Result<bool, StoreError> {
        match key.to_ascii_lowercase().replace('_', "-").as_str() {
            "ssl-mode" => self.mode = Some(mode(value)?),
            "ssl-ca" => self.ca = Some(path_of(value)?),
            "ssl-cert" => self.cert = Some(path_of(value)?),
            "ssl-key" => self.key = Some(path_of(value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// What the parameters say together.
    pub(crate) fn is_whole(&self) -> Result<(), StoreError> {
        if self.cert.is_some() != self.key.is_some() {
            return Err(invalid("ssl-cert and ssl-key belong together"));
        }
        Ok(())
    }

    /// MySQL's own default, and, as with its own clients, a certificate to check by is checked by.
    pub(crate) fn mode(&self) -> Mode {
        self.mode.unwrap_or(if self.ca.is_some() { Mode::VerifyCa } else { Mode::Preferred })
    }

    pub(crate) fn options(&self) -> Option<SslOpts> {
        let mode = self.mode();
        if mode == Mode::Disabled {
            return None;
        }
        let identity = self.cert.clone().zip(self.key.clone());
        let identity = identity.map(|(cert, key)| ClientIdentity::new(cert.into(), key.into()));
        let verifies = matches!(mode, Mode::VerifyCa | Mode::VerifyIdentity);
        let roots = self.ca.clone().filter(|_| verifies);
        let options = SslOpts::default()
            .with_client_identity(identity)
            .with_disable_built_in_roots(roots.is_some())
            .with_root_certs(roots.into_iter().map(Into::into).collect())
            .with_danger_accept_invalid_certs(!verifies)
            .with_danger_skip_domain_validation(mode != Mode::VerifyIdentity);
        Some(options)
    }
}

fn mode(value: &str) -> Result<Mode, StoreError> {
    Ok(match value.to_ascii_uppercase().as_str() {
        "DISABLED" => Mode::Disabled,
        "PREFERRED" => Mode::Preferred,
        "REQUIRED" => Mode::Required,
        "VERIFY_CA" => Mode::VerifyCa,
        "VERIFY_IDENTITY" => Mode::VerifyIdentity,
        _ => {
            return Err(invalid("ssl-mode is DISABLED, PREFERRED, REQUIRED, VERIFY_CA or VERIFY_IDENTITY"));
        }
    })
}

/// The path in a parameter, which may be percent-encoded.
fn path_of(value: &str) -> Result<PathBuf, StoreError> {
    let mut bytes = Vec::new();
    let mut rest = value.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let decoded = tail.split_at_checked(2).and_then(|(digits, tail)| {
            let digits = str::from_utf8(digits).ok()?;
            Some((u8::from_str_radix(digits, 16).ok()?, tail))
        });
        let (decoded, tail) = decoded.ok_or_else(|| invalid("a % in a path is written %25"))?;
        bytes.push(decoded);
        rest = tail;
    }
    match String::from_utf8(bytes) {
        Ok(path) if !path.is_empty() => Ok(path.into()),
        _ => Err(invalid("ssl-ca, ssl-cert and ssl-key are paths of files")),
    }
}
