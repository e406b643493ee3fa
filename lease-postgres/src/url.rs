//! A connection's URL: what the driver does not know is read here, the rest is handed on.

use std::path::PathBuf;

use lease_core::ErrorKind;
use lease_core::store::StoreError;
use tokio_postgres::Config;

use crate::tls::{Roots, SslMode, Tls};

/// What a URL may say behind its `?`. Only names from here are repeated in errors, for what looks like another may
/// be a part of a password.
const PARAMETERS: &[&str] = &[
    "application_name",
    "channel_binding",
    "connect_timeout",
    "hostaddr",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_retries",
    "options",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslnegotiation",
    "sslrootcert",
    "target_session_attrs",
    "tcp_user_timeout",
];

/// Reads a URL as libpq does, as far as its parameters are known. Errors hold no part of the URL but
/// names of parameters, for it has a password inside.
pub(crate) fn parse(url: &str) -> Result<(Config, Tls), StoreError> {
    let rest = ["postgres://", "postgresql://"].iter().find_map(|scheme| url.strip_prefix(scheme));
    let rest = rest.ok_or_else(|| invalid("it does not begin with postgres:// or postgresql://"))?;
    let authority_ends = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(authority_ends);
    // A password with such signs would be taken for a host or a parameter, and shown.
    if authority.matches('@').count() > 1 || tail.contains(['@', '#']) {
        return Err(invalid(
            "user, password and values have to be percent-encoded: %40 for @, %23 for #, %2F for /, %3F for ?",
        ));
    }
    let (path, query) = tail.split_once('?').unwrap_or((tail, ""));
    let (mut settings, mut others) = (TlsSettings::default(), Vec::new());
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').ok_or_else(|| invalid("a parameter has no value"))?;
        if !PARAMETERS.contains(&key) {
            return Err(invalid(&format!("it has a parameter that is none of {}", PARAMETERS.join(", "))));
        }
        let value = decode(value).ok_or_else(|| invalid(&format!("the value of {key:?} is no UTF-8")))?;
        match key {
            "sslmode" => settings.mode = Some(value.parse().map_err(|()| bad_value(key))?),
            "sslrootcert" if value == "system" => settings.roots = Some(Roots::System),
            "sslrootcert" => settings.roots = Some(Roots::File(PathBuf::from(value))),
            "sslcert" => settings.certificate = Some(PathBuf::from(value)),
            "sslkey" => settings.key = Some(PathBuf::from(value)),
            // Only a primary is used, so these ask for nothing more.
            "target_session_attrs" if matches!(&*value, "any" | "read-write" | "primary") => {}
            "target_session_attrs" => {
                return Err(invalid("leases need the primary, so leave target_session_attrs out"));
            }
            _ => others.push(pair),
        }
    }
    let mut config: Config = format!("postgresql://{authority}{path}?{}", others.join("&")).parse().map_err(
        |error: tokio_postgres::Error| {
            let why = std::error::Error::source(&error).map_or_else(String::new, ToString::to_string);
            invalid(&why.replace(char::is_control, " "))
        },
    )?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        config.host("localhost");
    }
    let tls = settings.check(config.get_ssl_negotiation())?;
    Ok((config, tls))
}

#[derive(Default)]
struct TlsSettings {
    mode: Option<SslMode>,
    roots: Option<Roots>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

impl TlsSettings {
    /// The combinations that libpq refuses are refused.
    fn check(self, negotiation: tokio_postgres::config::SslNegotiation) -> Result<Tls, StoreError> {
        let Self { mode, roots, certificate, key } = self;
        let default = if roots == Some(Roots::System) { SslMode::VerifyFull } else { SslMode::Prefer };
        let mode = mode.unwrap_or(default);
        if roots == Some(Roots::System) && mode != SslMode::VerifyFull {
            return Err(invalid(
                "sslrootcert=system needs sslmode=verify-full, or anybody's certificate would do",
            ));
        }
        if roots.is_none() && mode == SslMode::VerifyCa {
            return Err(invalid("sslmode=verify-ca needs sslrootcert, the file of the CA to trust"));
        }
        let direct = negotiation == tokio_postgres::config::SslNegotiation::Direct;
        if direct && matches!(mode, SslMode::Disable | SslMode::Allow | SslMode::Prefer) {
            return Err(invalid("sslnegotiation=direct needs sslmode=require or better"));
        }
        let client = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err(invalid("sslcert and sslkey go together")),
        };
        Ok(Tls { mode, roots, client, direct })
    }
}

fn bad_value(key: &str) -> StoreError {
    invalid(&format!("{key} has a value that is not known"))
}

fn invalid(why: &str) -> StoreError {
    StoreError::new(ErrorKind::Invalid, format!("the PostgreSQL URL cannot be used: {why}")).without_effect()
}

/// Undoes percent-encoding. A stray `%` stands for itself.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let encoded = (*first == b'%').then(|| tail.first_chunk::<2>()).flatten();
        let byte = encoded.and_then(|hex| u8::from_str_radix(str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod bad_values;

#[cfg(test)]
mod tests {
    use tokio_postgres::config::Host;

    use super::*;

    #[test]
    fn hosts_database_user_and_password_go_to_the_driver() {
        let (config, tls) =
            parse("postgresql://me:p%40ss%2F@a:1,[::1]:2/db?application_name=x%40y&connect_timeout=3")
                .unwrap();
        assert_eq!(config.get_hosts(), [Host::Tcp("a".to_owned()), Host::Tcp("::1".to_owned())]);
        assert_eq!((config.get_ports(), config.get_dbname()), (&[1, 2][..], Some("db")));
        assert_eq!((config.get_user(), config.get_password()), (Some("me"), Some(&b"p@ss/"[..])));
        assert_eq!(config.get_application_name(), Some("x@y"));
        assert_eq!(tls, Tls { mode: SslMode::Prefer, roots: None, client: None, direct: false });
        let (config, _) = parse("postgres:///db").unwrap();
        assert_eq!(config.get_hosts(), [Host::Tcp("localhost".to_owned())]);
    }

    #[test]
    fn the_parameters_of_tls_are_those_of_libpq() {
        let tls = |query: &str| parse(&format!("postgres://h/d?{query}")).unwrap().1;
        for (text, mode) in [
            ("disable", SslMode::Disable),
            ("allow", SslMode::Allow),
            ("prefer", SslMode::Prefer),
            ("require", SslMode::Require),
            ("verify-full", SslMode::VerifyFull),
        ] {
            assert_eq!(tls(&format!("sslmode={text}")).mode, mode);
        }
        let whole =
            tls("sslmode=verify-ca&sslrootcert=%2Fa%20b&sslcert=c&sslkey=k&target_session_attrs=primary");
        let client = Some((PathBuf::from("c"), PathBuf::from("k")));
        let roots = Some(Roots::File(PathBuf::from("/a b")));
        assert_eq!(whole, Tls { mode: SslMode::VerifyCa, roots, client, direct: false });
        assert_eq!(tls("sslrootcert=system").mode, SslMode::VerifyFull);
        assert!(tls("sslmode=require&sslnegotiation=direct").direct);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_without_quoting_the_password() {
        for (url, says) in [
            ("", "does not begin"),
            ("mysql://me:secret@h/d", "does not begin"),
            ("host=h password=secret", "does not begin"),
            ("postgres://me:sec@ret@h/d", "percent-encoded"),
            ("postgres://me:sec/ret@h/d", "percent-encoded"),
            ("postgres://me:sec?ret@h/d", "percent-encoded"),
            ("postgres://me:1?sec=ret@h/d", "percent-encoded"),
            ("postgres://me:sec#ret@h/d", "percent-encoded"),
            ("postgres://me:secret@h:x/d", "port"),
            ("postgres://me:secret@h/d?sslmode=none", "sslmode"),
            ("postgres://me:secret@h/d?sslmode", "no value"),
            ("postgres://me:secret@h/d?passfile=x", "a parameter that is none of application_name"),
            ("postgres://me:12?secret=ret", "a parameter that is none of"),
            ("postgres://me:12?secret=%ff", "a parameter that is none of"),
            ("postgres://me:12?secret=word@h/d", "percent-encoded"),
            ("postgres://me:12?secret=%ff@h/d", "percent-encoded"),
            ("postgres://me:12/sec?application_name=ret@h/d", "percent-encoded"),
            ("postgres://me:12/secret@h/d", "percent-encoded"),
            ("postgres://h/d?password=secret", "a parameter that is none of"),
            ("postgres://h/d?host=secret", "a parameter that is none of"),
            ("postgres://h/d?load_balance_hosts=random", "a parameter that is none of"),
            ("postgres://me:secret@h/d?sslmode=verify-ca", "sslrootcert"),
            ("postgres://me:secret@h/d?sslrootcert=system&sslmode=require", "verify-full"),
            ("postgres://me:secret@h/d?sslcert=x", "sslkey"),
            ("postgres://me:secret@h/d?sslnegotiation=direct", "require"),
            ("postgres://me:secret@h/d?target_session_attrs=standby", "primary"),
            ("postgres://me:secret@h/d?sslcert=%ff&sslkey=k", "UTF-8"),
            ("postgres://me:secret@[::1/d", "host"),
        ] {
            let error = parse(url).unwrap_err();
            let text = format!("{error} {error:?}");
            assert_eq!(error.kind(), ErrorKind::Invalid, "{url}");
            assert!(error.to_string().contains(says) && !text.contains('\n'), "{url}: {text}");
            assert!(!text.contains("sec") && !text.contains("ret@"), "{url}: {text}");
        }
    }
}
