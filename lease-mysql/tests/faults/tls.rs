//! TLS: what each mode asks for, and who is let in.

use std::path::PathBuf;

use lease_core::{ErrorKind, LeaseStore};
use lease_mysql::MysqlStore;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use test_servers::{Product, Server, Setup};

use crate::support::{Sandbox, is_harmless, on_both, private};

on_both! {
    each_mode_asks_for_what_mysqls_own_clients_ask_for
    a_server_without_tls_is_taken_only_by_the_modes_that_say_so
}

/// An authority.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = params(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate and its key.
    fn issue(&self, name: &str, hosts: &[&str]) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let certificate = params(name, hosts).signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

fn params(name: &str, hosts: &[&str]) -> CertificateParams {
    let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(hosts).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// A server whose certificate is for these hosts, and its authority.
async fn secured(product: Product, hosts: &[&str]) -> (Server, Authority) {
    let authority = Authority::new("our authority");
    let (certificate, key) = authority.issue("server", hosts);
    let files = [("ca.pem", authority.pem()), ("server.pem", certificate), ("server.key", key)];
    let setup = Setup {
        arguments: ["--ssl-ca=ca.pem", "--ssl-cert=server.pem", "--ssl-key=server.key"]
            .map(str::to_owned)
            .into(),
        files: files.map(|(name, text)| (name.to_owned(), text)).into(),
        ..Setup::default()
    };
    (private(product, setup).await, authority)
}

fn write(server: &Server, name: &str, text: &str) -> PathBuf {
    let path = server.data().parent().unwrap().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

async fn check(
    sandbox: &Sandbox,
    login: &str,
    parameters: &str,
) -> Result<(), lease_core::store::StoreError> {
    let url = format!("{}?{parameters}", sandbox.url_of(login, None));
    MysqlStore::open(&url).unwrap().check().await
}

async fn each_mode_asks_for_what_mysqls_own_clients_ask_for(product: Product) {
    for (host, is_for_us) in [("127.0.0.1", true), ("db.example", false)] {
        let (server, authority) = secured(product, &[host]).await;
        let sandbox = Sandbox::empty(&server.url()).await;
        sandbox.store().migrate().await.unwrap();
        for (user, requires) in [("only_tls", "SSL"), ("only_cert", "X509")] {
            sandbox.run(format!("CREATE USER {user} IDENTIFIED BY 'x' REQUIRE {requires}")).await;
            sandbox.run(format!("GRANT SELECT, INSERT, UPDATE ON leases TO {user}")).await;
        }
        let ca = write(&server, "our-ca.pem", &authority.pem()).display().to_string();
        let foreign =
            write(&server, "foreign-ca.pem", &Authority::new("foreign").pem()).display().to_string();
        for (parameters, ok) in [
            (String::new(), true),
            ("ssl-mode=PREFERRED".to_owned(), true),
            ("ssl-mode=REQUIRED".to_owned(), true),
            ("ssl-mode=DISABLED".to_owned(), false),
            // By right of the authority alone: but the driver looks at the name as well.
            (format!("ssl-mode=VERIFY_CA&ssl-ca={ca}"), is_for_us),
            (format!("ssl-ca={ca}"), is_for_us),
            (format!("ssl-mode=VERIFY_CA&ssl-ca={foreign}"), false),
            ("ssl-mode=VERIFY_CA".to_owned(), false),
            (format!("ssl-mode=VERIFY_IDENTITY&ssl-ca={ca}"), is_for_us),
            ("ssl-mode=VERIFY_CA&ssl-ca=/does/not/exist.pem".to_owned(), false),
        ] {
            let answer = check(&sandbox, "only_tls:x", &parameters).await;
            match ok {
                true => answer.unwrap_or_else(|error| panic!("{parameters}: {error:?}")),
                false if parameters.contains("exist") => {
                    is_harmless(answer, ErrorKind::Unavailable);
                }
                false => {
                    is_harmless(answer, ErrorKind::Denied);
                }
            }
        }
        let (certificate, key) = authority.issue("client", &[]);
        let certificate = write(&server, "client.pem", &certificate).display().to_string();
        let key = write(&server, "client.key", &key).display().to_string();
        is_harmless(check(&sandbox, "only_cert:x", "ssl-mode=REQUIRED").await, ErrorKind::Denied);
        if !is_for_us {
            continue;
        }
        let with = format!("ssl-mode=VERIFY_CA&ssl-ca={ca}&ssl-cert={certificate}&ssl-key={key}");
        check(&sandbox, "only_cert:x", &with).await.unwrap();
    }
}

async fn a_server_without_tls_is_taken_only_by_the_modes_that_say_so(product: Product) {
    let option = match product {
        Product::MySql => "--tls-version=",
        _ => "--skip-ssl",
    };
    let setup = Setup { arguments: vec![option.to_owned()], ..Setup::default() };
    let server = private(product, setup).await;
    let sandbox = Sandbox::empty(&server.url()).await;
    sandbox.store().migrate().await.unwrap();
    sandbox.run("CREATE USER app IDENTIFIED BY 'pass'").await;
    sandbox.run("GRANT SELECT, INSERT, UPDATE ON leases TO app").await;
    check(&sandbox, "app:pass", "ssl-mode=PREFERRED").await.unwrap();
    check(&sandbox, "app:pass", "ssl-mode=DISABLED").await.unwrap();
    let error = is_harmless(check(&sandbox, "app:pass", "ssl-mode=REQUIRED").await, ErrorKind::Denied);
    assert!(error.to_string().contains("ssl-mode"), "{error}");
    is_harmless(check(&sandbox, "app:pass", "ssl-mode=VERIFY_CA").await, ErrorKind::Denied);
}
