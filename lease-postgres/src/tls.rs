//! Encryption as `sslmode` and its companions ask for it, with the meaning that libpq gives them.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use lease_core::ErrorKind;
use lease_core::store::StoreError;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres::config::SslMode as DriverMode;
use tokio_postgres_rustls::MakeRustlsConnect;

/// How much encryption is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SslMode {
    Disable,
    /// Without it first; with it, unverified, where that is refused.
    Allow,
    /// With it, unverified, first; without it where that is refused.
    Prefer,
    /// With it; the certificate is looked at only if there are [`Roots`].
    Require,
    /// Signed by one of the roots, for whichever host.
    VerifyCa,
    /// Signed by one of the roots, for this host.
    VerifyFull,
}

impl FromStr for SslMode {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Ok(match text {
            "disable" => Self::Disable,
            "allow" => Self::Allow,
            "prefer" => Self::Prefer,
            "require" => Self::Require,
            "verify-ca" => Self::VerifyCa,
            "verify-full" => Self::VerifyFull,
            _ => return Err(()),
        })
    }
}

/// Whom to trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Roots {
    System,
    File(PathBuf),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tls {
    pub(crate) mode: SslMode,
    pub(crate) roots: Option<Roots>,
    /// The files of our own certificate and its key.
    pub(crate) client: Option<(PathBuf, PathBuf)>,
    /// Without asking the server first whether it knows TLS.
    pub(crate) direct: bool,
}

impl Tls {
    /// What a driver's configuration can say.
    pub(crate) fn of(config: &tokio_postgres::Config) -> Self {
        let mode = match config.get_ssl_mode() {
            DriverMode::Disable => SslMode::Disable,
            DriverMode::Prefer => SslMode::Prefer,
            _ => SslMode::Require,
        };
        let direct = config.get_ssl_negotiation() == tokio_postgres::config::SslNegotiation::Direct;
        Self { mode, roots: None, client: None, direct }
    }

    /// The ways to connect, in the order in which they are tried. A socket of the file system has no
    /// encryption, whatever is asked for.
    pub(crate) fn ways(&self, is_socket: bool) -> &'static [DriverMode] {
        match self.mode {
            _ if is_socket => &[DriverMode::Disable],
            SslMode::Disable => &[DriverMode::Disable],
            SslMode::Allow => &[DriverMode::Disable, DriverMode::Require],
            SslMode::Prefer => &[DriverMode::Prefer, DriverMode::Disable],
            SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => &[DriverMode::Require],
        }
    }

    /// Reads the files anew for each connection, so that certificates can be renewed under a
    /// running service.
    pub(crate) fn connector(&self) -> Result<MakeRustlsConnect, StoreError> {
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable("TLS", &error))?
            .dangerous()
            .with_custom_certificate_verifier(self.verifier(provider)?);
        let mut config = match &self.client {
            Some((certificate, key)) => config
                .with_client_auth_cert(certificates(certificate)?, private_key(key)?)
                .map_err(|error| unusable("sslcert or sslkey", &error))?,
            None => config.with_no_client_auth(),
        };
        if self.direct {
            config.alpn_protocols = vec![b"postgresql".to_vec()];
        }
        Ok(MakeRustlsConnect::new(config))
    }

    fn verifier(&self, provider: Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, StoreError> {
        // `require` with a root file verifies as `verify-ca` does; so libpq, for old configurations.
        let host_matters = self.mode == SslMode::VerifyFull;
        let roots = match &self.roots {
            Some(Roots::File(file)) if self.verifies_files() => file_roots(file)?,
            _ if host_matters => system_roots()?,
            _ => return Ok(Arc::new(Unverified(provider))),
        };
        let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| unusable("sslrootcert", &error))?;
        Ok(if host_matters { inner } else { Arc::new(AnyHost(inner)) })
    }

    fn verifies_files(&self) -> bool {
        matches!(self.mode, SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull)
    }
}

fn file_roots(file: &Path) -> Result<RootCertStore, StoreError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|error| unusable(&file.display().to_string(), &error))?;
    }
    Ok(roots)
}

fn system_roots() -> Result<RootCertStore, StoreError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (taken, _) = roots.add_parsable_certificates(found.certs);
    if taken > 0 {
        return Ok(roots);
    }
    let error = StoreError::new(ErrorKind::Invalid, "the system has no certificates to trust");
    Err(error.with_advice("give the file of the CA as sslrootcert").without_effect())
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(unusable(&file.display().to_string(), &"it holds no certificate")),
        Err(error) => Err(unusable(&file.display().to_string(), &error)),
    }
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, StoreError> {
    PrivateKeyDer::from_pem_file(file).map_err(|error| unusable(&file.display().to_string(), &error))
}

fn unusable(what: &str, why: &dyn std::fmt::Display) -> StoreError {
    let message = format!("{what} cannot be used: {why}").replace(char::is_control, " ");
    StoreError::new(ErrorKind::Invalid, message).without_effect()
}

/// Takes any certificate. Encryption without it keeps out who listens, not who answers instead of the server.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Verifies all but the host's name.
#[derive(Debug)]
struct AnyHost(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyHost {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        // The name is compared last, when all else has been found good.
        match self.0.verify_server_cert(certificate, intermediates, host, ocsp, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
