// SPDX-License-Identifier: MIT OR Apache-2.0
//! TLS: certificate, key, and the authority of clients.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig};

/// Files of TLS.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// The certificate, with those between it and the root.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The authority that signs certificates of clients.
    pub client_authority: Option<PathBuf>,
    /// Whether clients may also come without a certificate, and show a token.
    pub has_tokens: bool,
}

/// Why TLS cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file is not as expected.
    #[error("{path}: {why}; it must be a PEM file with {expected}")]
    File {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        why: String,
        /// What it should have.
        expected: &'static str,
    },
    /// They do not fit together.
    #[error("TLS: {0}; see whether the key belongs to the certificate")]
    Unfit(#[from] rustls::Error),
    /// The authority's file has no certificate of use.
    #[error("{0}: {1}; name the certificate of the authority that signs certificates of clients")]
    Authority(PathBuf, String),
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let bad = |why: String| Error::File { path: path.to_owned(), why, expected: "certificates" };
    let found = CertificateDer::pem_file_iter(path).map_err(|why| bad(why.to_string()))?;
    let all = found.collect::<Result<Vec<_>, _>>().map_err(|why| bad(why.to_string()))?;
    if all.is_empty() { Err(bad("there is none in it".into())) } else { Ok(all) }
}

/// Makes what accepts connections.
///
/// # Errors
/// A file is wrong.
pub fn acceptor(files: &Files) -> Result<TlsAcceptor, Error> {
    let provider = Arc::new(default_provider());
    let chain = certificates(&files.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|why| Error::File {
        path: files.key.clone(),
        why: why.to_string(),
        expected: "a private key",
    })?;
    let builder =
        ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let builder = match &files.client_authority {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let bad = |why: String| Error::Authority(path.clone(), why);
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|why| bad(why.to_string()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = if files.has_tokens { verifier.allow_unauthenticated() } else { verifier };
            builder.with_client_cert_verifier(verifier.build().map_err(|why| bad(why.to_string()))?)
        }
    };
    let mut config = builder.with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The SHA-256 of a client's certificate.
pub(crate) fn fingerprint(connection: &rustls::ServerConnection) -> Option<[u8; 32]> {
    connection.peer_certificates()?.first().map(|certificate| Sha256::digest(certificate).into())
}
