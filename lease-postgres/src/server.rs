//! Where a store's connections lead: to the first of its hosts that is a primary.

use std::time::Duration;

use lease_core::ErrorKind;
use lease_core::store::{Limit, StoreError};
use tokio::time::timeout;
use tokio_postgres::config::{Config, Host, SslMode, TargetSessionAttrs};
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::connection::{Connection, is_standby};
use crate::error::of_connecting;
use crate::product;
use crate::sql;
use crate::tls::Tls;

/// The hosts, and how they are reached.
pub(crate) struct Server {
    /// One configuration for each host, in the order in which they are tried.
    hosts: Vec<Config>,
    tls: Tls,
    pooler: bool,
}

impl Server {
    pub(crate) fn new(config: &Config, tls: Tls, pooler: bool) -> Result<Self, StoreError> {
        let count = config.get_hosts().len().max(config.get_hostaddrs().len());
        let is_whole = |len| len == 0 || len == count;
        let ports = config.get_ports().len();
        let problem = if count == 0 {
            "it names no host"
        } else if !is_whole(config.get_hosts().len()) || !is_whole(config.get_hostaddrs().len()) {
            "it has not as many host addresses as hosts"
        } else if ports > 1 && ports != count {
            "it has not as many ports as hosts"
        } else {
            let hosts = (0..count).map(|index| one_host(config, index)).collect();
            return Ok(Self { hosts, tls, pooler });
        };
        let message = format!("the configuration of the connection cannot be used: {problem}");
        Err(StoreError::new(ErrorKind::Invalid, message).without_effect())
    }

    /// `a:5432,b:5433/database`.
    pub(crate) fn place(&self) -> String {
        let hosts: Vec<String> = self.hosts.iter().map(shown).collect();
        let config = &self.hosts[0];
        let database = config.get_dbname().or(config.get_user()).unwrap_or("(the user's)");
        format!("{}/{database}", hosts.join(",")).replace(char::is_control, "?")
    }

    /// Connects to the first host that answers and is a primary. Each gets its share of the time.
    pub(crate) async fn connect(&self, limit: &Limit) -> Result<Connection, StoreError> {
        let mut errors = Vec::new();
        for (tried, host) in self.hosts.iter().enumerate() {
            let still = u32::try_from(self.hosts.len() - tried).unwrap_or(u32::MAX);
            match timeout(limit.left() / still, self.connect_to(host)).await {
                Ok(Ok(connection)) => return Ok(connection),
                Ok(Err(error)) => errors.push((host, error)),
                Err(_) => errors.push((host, no_answer())),
            }
        }
        Err(of_all(errors))
    }

    async fn connect_to(&self, host: &Config) -> Result<Connection, StoreError> {
        let mut config = host.clone();
        let tls = self.tls.connector()?;
        let mut failed = None;
        for way in self.tls.ways(is_socket(host)) {
            match Box::pin(config.ssl_mode(*way).connect(tls.clone())).await {
                Ok((client, connection)) => {
                    let version = connection.parameter("server_version").map(str::to_owned);
                    // It ends with its client, or when the server is gone; the client then says so.
                    tokio::spawn(async move { drop(connection.await) });
                    self.begin_session(&client, version.as_deref()).await?;
                    return Ok(Connection::new(client, self.pooler));
                }
                Err(error) => failed = Some(of_connecting(error)),
            }
        }
        Err(failed.unwrap_or_else(no_answer))
    }

    /// Sets what statements rely on, and refuses a server that is not a primary, in one round trip.
    async fn begin_session(&self, client: &Client, version: Option<&str>) -> Result<(), StoreError> {
        let answer = client.simple_query(if self.pooler { sql::IS_STANDBY } else { sql::SESSION }).await;
        let is_old = version
            .is_some_and(|version| product::major(version).is_none_or(|major| major < product::OLDEST));
        if answer.is_err() || is_old {
            // Another product would fail on any statement; it is named when it names itself.
            let named = client.simple_query(sql::VERSION).await.ok();
            let named = named.as_deref().and_then(first_column).or(version);
            product::is_supported(named.unwrap_or("(no version)")).map_err(StoreError::without_effect)?;
        }
        let messages = answer.map_err(of_connecting)?;
        match first_column(&messages) {
            Some("f") => Ok(()),
            Some(_) => Err(is_standby()),
            None => Err(StoreError::new(ErrorKind::Other, "the server did not say whether it is a primary")
                .without_effect()),
        }
    }
}

fn first_column(messages: &[SimpleQueryMessage]) -> Option<&str> {
    messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    })
}

/// The configuration with one of its hosts alone, for the driver itself would choose among them by
/// what a session may do now, which a role's default can forbid on a primary.
fn one_host(config: &Config, index: usize) -> Config {
    let mut one = Config::new();
    match config.get_hosts().get(index) {
        Some(Host::Tcp(host)) => drop(one.host(host)),
        #[cfg(unix)]
        Some(Host::Unix(path)) => drop(one.host_path(path)),
        None => {}
    }
    if let Some(address) = config.get_hostaddrs().get(index) {
        one.hostaddr(*address);
        if one.get_hosts().is_empty() {
            // The name that its certificate has to have.
            one.host(address.to_string());
        }
    }
    let ports = config.get_ports();
    one.port(ports.get(index).or(ports.first()).copied().unwrap_or(5432));
    one.application_name(config.get_application_name().unwrap_or("lease"));
    config.get_user().map(|user| one.user(user));
    config.get_password().map(|password| one.password(password));
    config.get_dbname().map(|name| one.dbname(name));
    config.get_options().map(|options| one.options(options));
    config.get_connect_timeout().map(|time| one.connect_timeout(*time));
    // A connection that was given up on must not linger when its peer has vanished.
    one.tcp_user_timeout(config.get_tcp_user_timeout().copied().unwrap_or(Duration::from_secs(30)));
    one.keepalives(config.get_keepalives()).keepalives_idle(config.get_keepalives_idle());
    config.get_keepalives_interval().map(|time| one.keepalives_interval(time));
    config.get_keepalives_retries().map(|count| one.keepalives_retries(count));
    one.ssl_mode(SslMode::Prefer).ssl_negotiation(config.get_ssl_negotiation());
    one.channel_binding(config.get_channel_binding()).load_balance_hosts(config.get_load_balance_hosts());
    one.target_session_attrs(TargetSessionAttrs::Any);
    one
}

fn is_socket(host: &Config) -> bool {
    !matches!(host.get_hosts().first(), Some(Host::Tcp(_)))
}

fn shown(host: &Config) -> String {
    let port = host.get_ports().first().copied().unwrap_or(5432);
    match (host.get_hosts().first(), host.get_hostaddrs().first()) {
        (Some(Host::Tcp(name)), _) if name.contains(':') => format!("[{name}]:{port}"),
        (Some(Host::Tcp(name)), _) => format!("{name}:{port}"),
        #[cfg(unix)]
        (Some(Host::Unix(path)), _) => format!("{}:{port}", path.display()),
        (None, Some(address)) => std::net::SocketAddr::new(*address, port).to_string(),
        (None, None) => String::new(),
    }
}

fn no_answer() -> StoreError {
    StoreError::new(ErrorKind::Unavailable, "no connection in the time there was").without_effect()
}

/// One error for all hosts: what waiting does not mend comes first, then that one is out of reach, for that may
/// be the primary.
fn of_all(mut errors: Vec<(&Config, StoreError)>) -> StoreError {
    if errors.len() == 1 {
        return errors.remove(0).1;
    }
    let rank = |error: &StoreError| match error.kind() {
        ErrorKind::ReadOnly => 2,
        ErrorKind::Unavailable => 1,
        _ => 0,
    };
    let said: Vec<String> = errors.iter().map(|(host, error)| format!("{}: {error}", shown(host))).collect();
    let worst = errors.into_iter().map(|(_, error)| error).min_by_key(rank).unwrap_or_else(no_answer);
    let message = format!("no primary among the hosts ({})", said.join("; "));
    StoreError::new(worst.kind(), message).with_source(worst).without_effect()
}

#[cfg(test)]
mod tests {
    use ErrorKind::{Denied, ReadOnly, Unavailable};

    use super::*;

    #[test]
    fn hosts_are_shown_with_their_ports_and_without_the_password() {
        let place = |url: &str| {
            let (config, tls) = crate::url::parse(url).unwrap();
            Server::new(&config, tls, false).unwrap().place()
        };
        assert_eq!(place("postgres://me:secret@a:1,b,[::1]:2/x"), "a:1,b:5432,[::1]:2/x");
        assert_eq!(place("postgres://me:secret@%2Frun%2Fpg:9/a%0Ab"), "/run/pg:9/a?b");
        assert_eq!(place("postgres://me@h"), "h:5432/me");
    }

    #[test]
    fn a_configuration_without_a_host_or_with_too_few_ports_is_refused() {
        let mut config = Config::new();
        let refused =
            |config: &Config| Server::new(config, Tls::of(config), false).err().map(|error| error.kind());
        assert_eq!(refused(&config), Some(ErrorKind::Invalid));
        config.host("a").host("b").host("c").port(1).port(2);
        assert_eq!(refused(&config), Some(ErrorKind::Invalid));
        config.port(3);
        assert_eq!(refused(&config), None);
    }

    #[test]
    fn of_several_hosts_errors_the_one_that_waiting_does_not_mend_counts() {
        let config = Config::new();
        let kind = |kinds: &[ErrorKind]| {
            of_all(kinds.iter().map(|kind| (&config, StoreError::new(*kind, "x"))).collect()).kind()
        };
        assert_eq!(kind(&[ReadOnly, ReadOnly]), ReadOnly);
        assert_eq!(kind(&[ReadOnly, Unavailable]), Unavailable);
        assert_eq!(kind(&[Unavailable, Denied, ReadOnly]), Denied);
    }
}
