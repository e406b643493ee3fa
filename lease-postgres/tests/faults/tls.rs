//! `sslmode` and its companions, on a server with certificates.

use std::path::PathBuf;

use lease_core::{ErrorKind, LeaseStore};
use lease_postgres::PostgresStore;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use test_servers::{Product, Server, Setup};

use crate::common::{Sql, unique};
use crate::notices::listening;
use crate::support::is_harmless;

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate and its key: for a server by its host, for a client by its role.
    fn sign(&self, subject: &str, others: &[&str], purpose: ExtendedKeyUsagePurpose) -> (String, String) {
        let names: Vec<String> = [&[subject], others].concat().into_iter().map(str::to_owned).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, subject);
        params.extended_key_usages = vec![purpose];
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }
}

/// Roles by how they may log in: `plain` without encryption, `encrypted` with it, `certified` with a certificate.
const RULES: &str = "\
    hostssl all certified 127.0.0.1/32 cert\n\
    hostnossl all plain 127.0.0.1/32 trust\n\
    hostssl all encrypted 127.0.0.1/32 trust\n\
    host all postgres,either 127.0.0.1/32 trust\n";

/// A server for the hosts `localhost` and `127.0.0.1`, and certificates as files beside.
struct Secured {
    server: Server,
    folder: tempfile::TempDir,
}

impl Secured {
    async fn start() -> Self {
        let (ours, foreign) = (Authority::new(), Authority::new());
        let (certificate, key) = ours.sign("localhost", &["127.0.0.1"], ExtendedKeyUsagePurpose::ServerAuth);
        let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let files = vec![
            file("server.crt", &certificate),
            file("server.key", &key),
            file("ca.crt", &ours.pem()),
            file("pg_hba.conf", RULES),
        ];
        let arguments = ["-c", "ssl=on", "-c", "ssl_ca_file=ca.crt"].map(str::to_owned).to_vec();
        let server = Server::start(Product::Postgres, Setup { arguments, files, ..Setup::default() });
        let owner = Sql::connect(&format!("{}?sslmode=disable", server.url())).await;
        owner.run("CREATE ROLE plain LOGIN; CREATE ROLE encrypted LOGIN; CREATE ROLE either LOGIN; CREATE ROLE certified LOGIN").await;

        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("ca.crt", &ours.pem());
        write("foreign.crt", &foreign.pem());
        write("empty.crt", "");
        let (certificate, key) = ours.sign("certified", &[], ExtendedKeyUsagePurpose::ClientAuth);
        write("client.crt", &certificate);
        write("client.key", &key);
        Self { server, folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Connects, and says whether the connection is encrypted.
    async fn connect(
        &self,
        role: &str,
        host: &str,
        parameters: &str,
    ) -> Result<bool, lease_core::store::StoreError> {
        let application = unique("tls");
        let port = self.server.port();
        let parameters = parameters.replace("{folder}", &self.folder.path().display().to_string());
        let url = format!(
            "postgres://{role}@{host}:{port}/postgres?hostaddr=127.0.0.1&application_name={application}&{parameters}"
        );
        let store = PostgresStore::open(&url)?;
        // There is no table; what matters is how far it gets.
        let error = store.check().await.unwrap_err();
        if error.kind() != ErrorKind::Schema {
            return Err(error);
        }
        // The connection that listens is made as the others are, and knows that no pooler is between.
        drop(listening(&store).await);
        let encrypted = format!(
            "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = '{application}'"
        );
        Ok(self.server.ask(&encrypted).as_deref() == Some("t"))
    }
}

#[tokio::test]
async fn each_mode_encrypts_and_verifies_as_it_promises() {
    let secured = Secured::start().await;
    let ca = "sslrootcert={folder}/ca.crt";
    let foreign = "sslrootcert={folder}/foreign.crt";
    let (yes, no) = (Ok(true), Ok(false));
    let denied = Err(ErrorKind::Denied);
    for (role, host, parameters, expected) in [
        ("either", "localhost", "sslmode=disable", no),
        ("encrypted", "localhost", "sslmode=disable", denied),
        ("either", "localhost", "sslmode=allow", no),
        ("encrypted", "localhost", "sslmode=allow", yes),
        ("either", "localhost", "", yes),
        ("either", "localhost", "sslmode=prefer", yes),
        ("plain", "localhost", "sslmode=prefer", no),
        ("encrypted", "localhost", "sslmode=prefer", yes),
        ("either", "localhost", "sslmode=require", yes),
        ("plain", "localhost", "sslmode=require", denied),
        ("either", "127.0.0.1", &format!("sslmode=require&{ca}"), yes),
        ("either", "localhost", &format!("sslmode=require&{foreign}"), denied),
        ("either", "localhost", &format!("sslmode=prefer&{foreign}"), yes),
        ("either", "127.0.0.1", &format!("sslmode=verify-ca&{ca}"), yes),
        ("either", "localhost", &format!("sslmode=verify-ca&{foreign}"), denied),
        ("either", "localhost", &format!("sslmode=verify-full&{ca}"), yes),
        ("either", "127.0.0.1", &format!("sslmode=verify-full&{ca}"), yes),
        ("either", "127.0.0.9", &format!("sslmode=verify-full&{ca}"), denied),
        ("either", "other.example", &format!("sslmode=verify-full&{ca}"), denied),
        ("either", "localhost", &format!("sslmode=verify-full&{foreign}"), denied),
        ("plain", "localhost", &format!("sslmode=verify-full&{ca}"), denied),
        ("certified", "localhost", &format!("sslmode=verify-full&{ca}"), denied),
        (
            "certified",
            "localhost",
            &format!("sslmode=verify-full&{ca}&sslcert={{folder}}/client.crt&sslkey={{folder}}/client.key"),
            yes,
        ),
        (
            "certified",
            "localhost",
            "sslmode=require&sslcert={folder}/client.crt&sslkey={folder}/client.key",
            yes,
        ),
        (
            "either",
            "localhost",
            "sslmode=require&sslcert={folder}/client.crt&sslkey={folder}/client.key",
            yes,
        ),
    ] {
        let connected = secured.connect(role, host, parameters).await;
        let found = connected.as_ref().copied().map_err(lease_core::store::StoreError::kind);
        assert_eq!(found, expected, "{role} at {host} with {parameters}: {connected:?}");
    }
}

#[tokio::test]
async fn a_certificate_of_our_own_making_is_none_that_the_system_trusts() {
    let secured = Secured::start().await;
    for parameters in ["sslmode=verify-full", "sslrootcert=system", "sslmode=verify-full&sslrootcert=system"]
    {
        let error = secured.connect("either", "localhost", parameters).await.unwrap_err();
        // A machine may have no certificates to trust at all, which is said.
        let kinds = [ErrorKind::Denied, ErrorKind::Invalid];
        assert!(kinds.contains(&error.kind()) && error.to_string().contains("certificate"), "{error:?}");
    }
}

#[tokio::test]
async fn certificates_that_cannot_be_used_are_named_by_their_file() {
    let secured = Secured::start().await;
    for (parameters, file) in [
        ("sslmode=verify-full&sslrootcert={folder}/missing.crt", "missing.crt"),
        ("sslmode=verify-full&sslrootcert={folder}/empty.crt", "empty.crt"),
        ("sslmode=require&sslcert={folder}/missing.crt&sslkey={folder}/client.key", "missing.crt"),
        ("sslmode=prefer&sslcert={folder}/missing.crt&sslkey={folder}/client.key", "missing.crt"),
        ("sslmode=require&sslcert={folder}/client.crt&sslkey={folder}/client.crt", "client.crt"),
    ] {
        let error = is_harmless(secured.connect("either", "localhost", parameters).await, ErrorKind::Invalid);
        let path = secured.file(file).display().to_string();
        assert!(error.to_string().contains(&path), "{error} does not name {path}");
    }
}

#[tokio::test]
async fn a_server_without_tls_is_refused_where_tls_is_asked_for() {
    let url = crate::common::shared();
    for (mode, is_refused) in
        [("disable", false), ("allow", false), ("prefer", false), ("require", true), ("verify-full", true)]
    {
        let store = PostgresStore::options()
            .table(&unique("none"))
            .unwrap()
            .open(&format!("{url}?sslmode={mode}"))
            .unwrap();
        let kind = if is_refused { ErrorKind::Denied } else { ErrorKind::Schema };
        is_harmless(store.check().await, kind);
        // What else is wrong is not taken for the want of it.
        let missing = crate::support::with_database(&url, "no_such_database");
        let store = PostgresStore::open(&format!("{missing}?sslmode={mode}")).unwrap();
        let kind = if is_refused { ErrorKind::Denied } else { ErrorKind::Invalid };
        is_harmless(store.check().await, kind);
    }
}
