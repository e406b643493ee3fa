//! URLs: what the driver does not read in them itself.

use std::time::Duration;

use lease_core::ErrorKind;
use lease_core::store::StoreError;
use mysql_async::{Opts, OptsBuilder, UrlError};

use crate::tls::{Mode, Tls};

const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// How a connection is opened.
#[derive(Clone)]
pub(crate) struct Target {
    /// With TLS, if there is to be any.
    pub(crate) opts: Opts,
    /// Without, for a server that offers none; `None`: then there is no connection.
    pub(crate) plain: Option<Opts>,
}

impl Target {
    /// As the driver's configuration says. What it does with a socket or TLS is the user's choice.
    pub(crate) fn of_config(opts: Opts) -> Result<Self, StoreError> {
        if opts.db_name().is_none_or(str::is_empty) {
            return Err(invalid("it names no database; mysql://user@host/database does"));
        }
        Ok(Self { opts, plain: None })
    }

    /// As a URL says.
    pub(crate) fn of_url(url: &str) -> Result<Self, StoreError> {
        let (bare, tls) = split(url)?;
        let opts = Opts::from_url(&bare).map_err(|error| refused(&error))?;
        let Self { opts, .. } = Self::of_config(opts)?;
        let host = opts.ip_or_hostname();
        // An IPv6 address, which has brackets only in a URL.
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let builder = OptsBuilder::from_opts(opts.clone())
            .ip_or_hostname(host)
            // The driver would ask the server for its socket and move there, past every proxy.
            .prefer_socket(false)
            // Nor need it ask for these, in a trip of its own: a flight of ours is far smaller, and the
            // other is for a pool of its own.
            .max_allowed_packet(opts.max_allowed_packet().or(Some(16 << 20)))
            .wait_timeout(opts.wait_timeout().or(Some(28_800)))
            // A connection whose other end has vanished is noticed some time after it was given up.
            .tcp_keepalive(opts.tcp_keepalive().or(Some(KEEP_ALIVE)))
            .client_found_rows(true);
        let plain = Opts::from(builder.clone().ssl_opts(None));
        if opts.socket().is_some() {
            return Ok(Self { opts: plain, plain: None });
        }
        let by_driver = opts.ssl_opts().filter(|_| tls == Tls::default()).cloned();
        let is_optional = by_driver.is_none() && tls.mode() == Mode::Preferred;
        let Some(ssl) = by_driver.or_else(|| tls.options()) else {
            return Ok(Self { opts: plain, plain: None });
        };
        Ok(Self { opts: builder.ssl_opts(ssl).into(), plain: is_optional.then_some(plain) })
    }

    /// `host:3306/database`, or the socket's path; without user and password.
    pub(crate) fn place(&self) -> String {
        let database = self.opts.db_name().unwrap_or_default();
        let (host, port) = (self.opts.ip_or_hostname(), self.opts.tcp_port());
        let place = match self.opts.socket() {
            Some(socket) => format!("{socket} {database}"),
            None if host.contains(':') => format!("[{host}]:{port}/{database}"),
            None => format!("{host}:{port}/{database}"),
        };
        place.replace(char::is_control, "?")
    }
}

/// Takes the parameters of TLS out of a URL.
fn split(url: &str) -> Result<(String, Tls), StoreError> {
    let (place, query) = url.split_once('?').unwrap_or((url, ""));
    // A `?`, `#` or `/` in a password cuts the URL in the wrong place, and parts of it would go astray.
    let astray = |part: &str| part.contains('@');
    let path =
        place.split_once("://").and_then(|(_, rest)| rest.split_once('/')).map_or("", |(_, path)| path);
    if url.contains('#') || astray(query) || astray(path) {
        return Err(invalid("write ? as %3F, # as %23, / as %2F and @ as %40 in user name and password"));
    }
    let place =
        place.strip_prefix("mariadb://").map_or_else(|| place.to_owned(), |rest| format!("mysql://{rest}"));
    let mut tls = Tls::default();
    let mut rest = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if !tls.take(key, value)? {
            rest.push(pair);
        }
    }
    tls.is_whole()?;
    let bare = if rest.is_empty() { place } else { format!("{place}?{}", rest.join("&")) };
    Ok((bare, tls))
}

/// The driver's words about a URL. Only what cannot be a piece of a password is quoted.
fn refused(error: &UrlError) -> StoreError {
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    match error {
        UrlError::UnknownParameter { param } | UrlError::InvalidParamValue { param, .. } if plain(param) => {
            invalid(&format!("its parameter {param} is unknown, or has a value that cannot be used"))
        }
        UrlError::UnsupportedScheme { .. } => invalid("it must begin with mysql:// or mariadb://"),
        _ => invalid("it must be like mysql://user:password@host:3306/database"),
    }
}

pub(crate) fn invalid(what: &str) -> StoreError {
    StoreError::new(ErrorKind::Invalid, format!("the URL of the database cannot be used: {what}"))
        .without_effect()
}

#[cfg(test)]
mod bad_values;

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn target(url: &str) -> Target {
        Target::of_url(url).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    #[test]
    fn a_url_says_where_and_its_place_holds_no_password() {
        let target = target("mysql://me:s3cret@db.example/app");
        assert_eq!(target.place(), "db.example:3306/app");
        assert_eq!(target.opts.pass(), Some("s3cret"));
        assert!(!target.opts.prefer_socket());
        assert_eq!(Target::of_url("mariadb://me@h:1/x").unwrap().place(), "h:1/x");
    }

    #[test]
    fn an_ipv6_address_has_brackets_only_where_it_is_written() {
        let target = target("mysql://me@[::1]:3307/app");
        assert_eq!((target.opts.ip_or_hostname(), target.opts.tcp_port()), ("::1", 3307));
        assert_eq!(target.plain.as_ref().map(Opts::ip_or_hostname), Some("::1"));
        assert_eq!(target.place(), "[::1]:3307/app");
    }

    #[test]
    fn the_modes_are_those_of_the_servers_own_clients() {
        let with = |parameters: &str| {
            let target = target(&format!("mysql://me@h/db?{parameters}"));
            let ssl =
                target.opts.ssl_opts().map(|ssl| (ssl.accept_invalid_certs(), ssl.skip_domain_validation()));
            (ssl, target.plain.is_some())
        };
        assert_eq!(with(""), (Some((true, true)), true));
        assert_eq!(with("ssl-mode=PREFERRED"), (Some((true, true)), true));
        assert_eq!(with("ssl-mode=disabled"), (None, false));
        assert_eq!(with("ssl_mode=REQUIRED"), (Some((true, true)), false));
        assert_eq!(with("ssl-mode=VERIFY_CA"), (Some((false, true)), false));
        assert_eq!(with("ssl-mode=VERIFY_IDENTITY&stmt_cache_size=10"), (Some((false, false)), false));
        assert_eq!(with("ssl-ca=/x.pem"), (Some((false, true)), false));
        // The driver's own parameters stand when none of ours does.
        assert_eq!(with("require_ssl=true&verify_ca=false"), (Some((true, false)), false));
        assert_eq!(with("socket=/x.sock"), (None, false));
    }

    #[test]
    fn certificates_are_read_from_where_the_url_says() {
        let target = target("mysql://me@h/db?ssl-ca=/c%41/ca.pem&ssl-cert=/c.pem&ssl-key=/k.pem");
        let ssl = target.opts.ssl_opts().unwrap();
        assert_eq!(ssl.root_certs(), [PathBuf::from("/cA/ca.pem").into()]);
        assert!(ssl.disable_built_in_roots() && ssl.client_identity().is_some());
    }

    #[test]
    fn a_url_that_cannot_be_used_is_refused_without_a_word_of_the_password() {
        for url in [
            "",
            "x",
            "postgres://me:hunter2@h/db",
            "mysql://me:hunter2@h",
            "mysql://me:hunter2@h/",
            "mysql://me:hunter2@h:99999/db",
            "mysql://me:hun?ter2@h/db",
            "mysql://me:1#ter2@h/db",
            "mysql://me:1/ter2@h/db",
            "mysql://me:hunter2@h/db?ssl-mode=hunter2",
            "mysql://me:hunter2@h/db?ssl-cert=/x",
            "mysql://me:hunter2@h/db?ssl-ca=",
            "mysql://me:hunter2@h/db?ssl-ca=%zz",
            "mysql://me:hunter2@h/db?ssl-ca=%F",
            "mysql://me:hunter2@h/db?nothing=1",
            "mysql://me:hunter2@h/db?ter2",
            "mysql://me:hunter2@h/db?pool_min=x",
            "mysql://",
        ] {
            let Err(error) = Target::of_url(url) else { panic!("{url} was taken") };
            assert_eq!(error.kind(), ErrorKind::Invalid, "{url}");
            let text = error.to_string();
            assert!(!text.contains("ter2") && !text.contains('\n'), "{url}: {text}");
        }
    }
}
