//! Where a store's connections lead: to the first of its hosts that is a primary.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lease_core::ErrorKind;
use lease_core::store::StoreError;
use tokio::net::lookup_host;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use tokio_postgres::config::{Config, Host, SslMode, TargetSessionAttrs};
use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::tls::TlsStream;
use tokio_postgres::{AsyncMessage, Client, NoTls, Notification, SimpleQueryMessage, Socket};

use crate::connection::{Connection, Session, is_standby};
use crate::connections::Generation;
use crate::error::{of_connecting, refused_login};
use crate::product;
use crate::sql;
use crate::tls::Tls;

/// The hosts, and how they are reached.
#[derive(Clone)]
pub(crate) struct Opener {
    /// One configuration for each host, in the order in which they are tried.
    hosts: Arc<[Config]>,
    tls: Tls,
    generation: Generation,
    /// Whether a pooler has turned out to be between, which gives sessions to others in turn.
    sessions_are_shared: Arc<AtomicBool>,
    /// Where connections say what their sessions are notified of, and by dropping it that they have ended.
    notified: Option<mpsc::Sender<Notification>>,
    /// Told when the server had no room for a connection that is not to listen.
    no_room: Arc<Notify>,
}

/// A connection that nobody uses any more tells the server so, once all that was asked on it is answered. It waits no longer than
/// this: where nothing is answered any more and yet all is taken, as by a proxy whose server hangs, no bound of the system's own ends
/// it, and each attempt would leave one behind.
const FAREWELL: Duration = Duration::from_secs(1);

/// So long a host or an address may be silent before the next is tried beside it.
const HEAD_START: Duration = Duration::from_secs(1);

impl Opener {
    pub(crate) fn new(config: &Config, tls: Tls) -> Result<Self, StoreError> {
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
            return Ok(Self {
                hosts,
                tls,
                generation: Generation::default(),
                sessions_are_shared: Arc::default(),
                notified: None,
                no_room: Arc::default(),
            });
        };
        let message = format!("the configuration of the connection cannot be used: {problem}");
        Err(StoreError::new(ErrorKind::Invalid, message).without_effect())
    }

    pub(crate) fn generation(&self) -> &Generation {
        &self.generation
    }

    /// The same for a connection that is to listen.
    pub(crate) fn notifying(&self, notified: mpsc::Sender<Notification>) -> Self {
        Self { notified: Some(notified), ..self.clone() }
    }

    /// Until the server next has no room for a connection that is not to listen.
    pub(crate) async fn no_room(&self) {
        self.no_room.notified().await;
    }

    /// Whether sessions have turned out to be others' as well.
    pub(crate) fn sessions_are_shared(&self) -> bool {
        self.sessions_are_shared.load(Ordering::Relaxed)
    }

    /// `a:5432,b:5433/database`.
    pub(crate) fn place(&self) -> String {
        let hosts: Vec<String> = self.hosts.iter().map(shown).collect();
        let config = &self.hosts[0];
        let database = config.get_dbname().or(config.get_user()).unwrap_or("(the user's)");
        format!("{}/{database}", hosts.join(",")).replace(char::is_control, "?")
    }

    /// Connects to the first host that answers and is a primary.
    pub(crate) async fn open(&self) -> Result<Connection, StoreError> {
        let generation = self.generation.now();
        let attempts = self.hosts.iter().cloned().map(|host| (shown(&host), self.open_host(host)));
        let (client, session) = first_of("hosts", attempts).await?;
        Ok(Connection { client, generation, session })
    }

    async fn open_host(&self, host: Config) -> Result<(Driven, Option<Session>), StoreError> {
        let attempts = candidates(&host).await?.into_iter().map(|candidate| {
            let address = candidate.get_hostaddrs().first().map_or_else(String::new, IpAddr::to_string);
            (address, self.open_candidate(candidate))
        });
        first_of("addresses", attempts).await
    }

    async fn open_candidate(&self, candidate: Config) -> Result<(Driven, Option<Session>), StoreError> {
        let opening = async {
            let (client, version) = self.log_in(&candidate).await?;
            let session = self.session()?;
            let is_as_it_should_be = is_primary(&client, version.as_deref(), session.as_ref()).await?;
            Ok((client, session.map(|session| session.with_settings(!is_as_it_should_be))))
        };
        match candidate.get_connect_timeout() {
            Some(time) => timeout(*time, opening).await.unwrap_or_else(|_| Err(no_answer())),
            None => opening.await,
        }
    }

    /// What is kept in a session from now on.
    fn session(&self) -> Result<Option<Session>, StoreError> {
        if self.sessions_are_shared() {
            return Ok(None);
        }
        Session::new(Arc::clone(&self.sessions_are_shared)).map(Some)
    }

    async fn log_in(&self, candidate: &Config) -> Result<(Driven, Option<String>), StoreError> {
        let mut first = None;
        for way in self.tls.ways(is_socket(candidate)) {
            match self.log_in_by(*way, candidate).await {
                Ok(found) => return Ok(found),
                // The server has refused the one way and does not have the other.
                Err(error) if !by_server(&error) && first.is_some() => break,
                Err(error) if !may_go_another_way(*way, &error) => return Err(error),
                Err(error) => first = Some(error),
            }
        }
        Err(first.unwrap_or_else(no_answer))
    }

    async fn log_in_by(
        &self,
        way: SslMode,
        candidate: &Config,
    ) -> Result<(Driven, Option<String>), StoreError> {
        let mut config = candidate.clone();
        config.ssl_mode(way);
        if way == SslMode::Disable {
            return Box::pin(config.connect(NoTls))
                .await
                .map(|made| self.driven(made))
                .map_err(|error| self.failed(error));
        }
        let tls = self.tls.clone();
        // It reads files.
        let connector = spawn_blocking(move || tls.connector()).await;
        let connector = connector.map_err(|error| {
            StoreError::new(ErrorKind::Other, "no thread read the certificates")
                .with_source(error)
                .without_effect()
        })??;
        let made = Box::pin(config.connect(connector)).await;
        made.map(|made| self.driven(made)).map_err(|error| self.failed(error))
    }

    fn failed(&self, error: tokio_postgres::Error) -> StoreError {
        if self.notified.is_none() && error.code() == Some(&SqlState::TOO_MANY_CONNECTIONS) {
            self.no_room.notify_waiters();
        }
        of_connecting(error)
    }

    /// Lets the connection run, and tells what the server says its version is.
    fn driven<T>(
        &self,
        (client, mut connection): (Client, tokio_postgres::Connection<Socket, T>),
    ) -> (Driven, Option<String>)
    where
        T: TlsStream + Unpin + Send + 'static,
    {
        let version = connection.parameter("server_version").map(str::to_owned);
        let notified = self.notified.clone();
        let (used, unused) = oneshot::channel::<Infallible>();
        tokio::spawn(async move {
            // Until the server is gone, of which the client then tells, or has heard that the client is.
            let running = async {
                while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                    if let (AsyncMessage::Notification(notification), Some(notified)) = (message, &notified) {
                        // Who listened may have gone.
                        drop(notified.send(notification).await);
                    }
                }
            };
            let unheard = async {
                let _ = unused.await;
                sleep(FAREWELL).await;
            };
            tokio::select! {
                () = running => {}
                () = unheard => {}
            }
        });
        (Driven { client, _used: used }, version)
    }
}

/// A client whose connection is driven by a task of its own, which ends soon after this is dropped.
pub(crate) struct Driven {
    client: Client,
    _used: oneshot::Sender<Infallible>,
}

impl Deref for Driven {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

/// Refuses a server that is not a primary, and says whether the session's defaults are as they should be, in one round
/// trip.
async fn is_primary(
    client: &Client,
    version: Option<&str>,
    session: Option<&Session>,
) -> Result<bool, StoreError> {
    let look = session.map_or_else(String::new, |session| format!("; {}", sql::prepare_look(session.mark())));
    let answer = client.simple_query(&format!("{}{look}", sql::is_standby())).await;
    let is_old =
        version.is_some_and(|version| product::major(version).is_none_or(|major| major < product::OLDEST));
    if answer.is_err() || is_old {
        // Another product would fail on any statement; it is named when it names itself. Where the connection has ended
        // meanwhile, that says nothing of the server.
        let named = client.simple_query(sql::VERSION).await;
        let has_ended = named.as_ref().is_err_and(ends_connection);
        if is_old || !has_ended {
            let named = named.as_deref().ok().and_then(|messages| column(messages, 0)).or(version);
            product::is_supported(named.unwrap_or("(no version)")).map_err(StoreError::without_effect)?;
        }
    }
    let messages = answer.map_err(of_connecting)?;
    match column(&messages, 0) {
        Some("f") => Ok(column(&messages, 1) == Some("t")),
        Some(_) => Err(is_standby()),
        None => Err(StoreError::new(ErrorKind::Other, "the server did not say whether it is a primary")
            .without_effect()),
    }
}

/// Whether the connection has ended by this, which a server that is going down may say first.
fn ends_connection(error: &tokio_postgres::Error) -> bool {
    let is_fatal = |severity| matches!(severity, Severity::Fatal | Severity::Panic);
    error.as_db_error().is_none_or(|error| error.parsed_severity().is_some_and(is_fatal))
}

/// The configuration with each address of the host, whose name stays that which a certificate has to have.
async fn candidates(host: &Config) -> Result<Vec<Config>, StoreError> {
    let (Some(Host::Tcp(name)), []) = (host.get_hosts().first(), host.get_hostaddrs()) else {
        return Ok(vec![host.clone()]);
    };
    let port = host.get_ports().first().copied().unwrap_or(5432);
    let found = lookup_host((name.as_str(), port)).await.map_err(|error| {
        let message = format!("the host's address is not to be had: {error}").replace(char::is_control, " ");
        StoreError::new(ErrorKind::Unavailable, message)
            .with_advice("see the host in the URL, and how this machine resolves names")
            .with_source(error)
            .without_effect()
    })?;
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in found {
        if !addresses.contains(&address.ip()) {
            addresses.push(address.ip());
        }
    }
    Ok(addresses.into_iter().map(|address| host.clone().hostaddr(address).clone()).collect())
}

/// The first that goes well. Each is begun when one before it has failed, or been silent for a time: then they
/// run side by side.
async fn first_of<T, F>(what: &str, attempts: impl IntoIterator<Item = (String, F)>) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let (mut waiting, mut running, mut errors) = (attempts.into_iter(), FuturesUnordered::new(), Vec::new());
    loop {
        if let Some((shown, attempt)) = waiting.next() {
            running.push(async move { attempt.await.map_err(|error| (shown, error)) });
        }
        match timeout(HEAD_START, running.next()).await {
            Ok(Some(Ok(fit))) => return Ok(fit),
            Ok(Some(Err(failed))) => errors.push(failed),
            Ok(None) => return Err(of_all(what, errors)),
            Err(_) => {}
        }
    }
}

/// A value of the first row.
fn column(messages: &[SimpleQueryMessage], index: usize) -> Option<&str> {
    messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(index),
        _ => None,
    })
}

/// When nothing else is said: before a connection is idle for long, its peer is asked whether it is there.
const IDLE: Duration = Duration::from_secs(30);

/// What the driver has when nothing else is said.
const DRIVERS_IDLE: Duration = Duration::from_secs(2 * 60 * 60);

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
    let idle = Some(config.get_keepalives_idle()).filter(|idle| *idle != DRIVERS_IDLE).unwrap_or(IDLE);
    one.keepalives(config.get_keepalives()).keepalives_idle(idle);
    config.get_keepalives_interval().map(|time| one.keepalives_interval(time));
    config.get_keepalives_retries().map(|count| one.keepalives_retries(count));
    one.ssl_mode(SslMode::Prefer).ssl_negotiation(config.get_ssl_negotiation());
    one.channel_binding(config.get_channel_binding());
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

pub(crate) fn no_answer() -> StoreError {
    StoreError::new(ErrorKind::Unavailable, "no connection in the time there was").without_effect()
}

/// Without encryption, a server that wants it refuses the login. With it, much can go wrong that cannot without; files
/// that cannot be used are not among it, nor is a database that is not there.
fn may_go_another_way(way: SslMode, error: &StoreError) -> bool {
    if way == SslMode::Disable { refused_login(error) } else { error.kind() != ErrorKind::Invalid }
}

fn by_server(error: &StoreError) -> bool {
    let driver =
        std::error::Error::source(error).and_then(|source| source.downcast_ref::<tokio_postgres::Error>());
    driver.is_some_and(|error| error.as_db_error().is_some())
}

/// One error for all: that one is out of reach comes first, for that may be the primary, and a standby's last.
fn of_all(what: &str, mut errors: Vec<(String, StoreError)>) -> StoreError {
    if errors.len() == 1 {
        return errors.remove(0).1;
    }
    let rank = |error: &StoreError| match error.kind() {
        ErrorKind::Unavailable => 0,
        ErrorKind::ReadOnly => 2,
        _ => 1,
    };
    let said: Vec<String> =
        errors.iter().map(|(shown, error)| format!("{shown}: {}", error.message())).collect();
    let first = errors.into_iter().map(|(_, error)| error).min_by_key(rank).unwrap_or_else(no_answer);
    let message = format!("no primary among the {what} ({})", said.join("; "));
    let advice = first.advice().unwrap_or(first.kind().advice()).to_owned();
    StoreError::new(first.kind(), message).with_advice(advice).with_source(first).without_effect()
}

#[cfg(test)]
mod tests {
    use ErrorKind::{Denied, ReadOnly, Unavailable};

    use super::*;

    #[test]
    fn hosts_are_shown_with_their_ports_and_without_the_password() {
        let place = |url: &str| {
            let (config, tls) = crate::url::parse(url).unwrap();
            Opener::new(&config, tls).unwrap().place()
        };
        assert_eq!(place("postgres://me:secret@a:1,b,[::1]:2/x"), "a:1,b:5432,[::1]:2/x");
        assert_eq!(place("postgres://me:secret@%2Frun%2Fpg:9/a%0Ab"), "/run/pg:9/a?b");
        assert_eq!(place("postgres://me@h"), "h:5432/me");
    }

    #[test]
    fn a_configuration_without_a_host_or_with_too_few_ports_is_refused() {
        let mut config = Config::new();
        let refused = |config: &Config| Opener::new(config, Tls::of(config)).err().map(|error| error.kind());
        assert_eq!(refused(&config), Some(ErrorKind::Invalid));
        config.host("a").host("b").host("c").port(1).port(2);
        assert_eq!(refused(&config), Some(ErrorKind::Invalid));
        config.port(3);
        assert_eq!(refused(&config), None);
    }

    #[test]
    fn of_several_hosts_errors_the_one_that_may_be_the_primarys_counts() {
        let kind = |kinds: &[ErrorKind]| {
            let errors = kinds.iter().map(|kind| ("h".to_owned(), StoreError::new(*kind, "x"))).collect();
            of_all("hosts", errors).kind()
        };
        assert_eq!(kind(&[ReadOnly, ReadOnly]), ReadOnly);
        assert_eq!(kind(&[ReadOnly, Unavailable]), Unavailable);
        assert_eq!(kind(&[Denied, ReadOnly]), Denied);
        // One restarts, and a standby refuses the login.
        assert_eq!(kind(&[Denied, Unavailable, ReadOnly]), Unavailable);
    }

    #[tokio::test]
    async fn a_silent_address_costs_the_next_one_no_more_than_its_head_start() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (config, tls) =
            crate::url::parse(&test_servers::shared(test_servers::Product::Postgres)).unwrap();
        let opener = Opener::new(&config, tls).unwrap();
        let good = opener.hosts[0].clone();
        let mut dead = Config::new();
        dead.host("h").hostaddr("127.0.0.1".parse().unwrap()).port(silent.local_addr().unwrap().port());
        let attempts = [dead, good].map(|one| (shown(&one), opener.open_candidate(one)));
        let answer = timeout(Duration::from_secs(60), first_of("addresses", attempts)).await;
        answer.expect("the silent one was waited for").unwrap();
    }

    #[tokio::test]
    async fn the_time_to_connect_is_that_of_the_whole_attempt() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("postgres://me@{}/x?connect_timeout=1", silent.local_addr().unwrap());
        let (config, tls) = crate::url::parse(&url).unwrap();
        let opener = Opener::new(&config, tls).unwrap();
        let answer = timeout(Duration::from_secs(60), opener.open()).await.expect("it was waited for");
        assert_eq!(answer.err().map(|error| error.kind()), Some(Unavailable));
    }

    #[tokio::test]
    async fn a_name_stands_for_all_its_addresses_and_stays_the_name() {
        let (config, tls) = crate::url::parse("postgres://me@localhost:7/x").unwrap();
        let opener = Opener::new(&config, tls).unwrap();
        for candidate in candidates(&opener.hosts[0]).await.unwrap() {
            assert_eq!(candidate.get_hosts(), [Host::Tcp("localhost".to_owned())]);
            assert!(candidate.get_hostaddrs()[0].is_loopback());
            assert_eq!(candidate.get_ports(), [7]);
        }
    }
}
