// SPDX-License-Identifier: MIT OR Apache-2.0
//! The whole service: from options to the end.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::watch;

use crate::access::{Access, BadLine};
use crate::app::App;
use crate::audit::Audit;
use crate::route::Role;
use crate::routers::Saved;
use crate::running::Running;
use crate::scratch;
use crate::serve::{self, Place, Service, Socket};
use crate::shared::{Parts, Shared};
use crate::tls;

/// What the user wants.
#[derive(Debug, Default)]
pub struct Options {
    /// Where to listen.
    pub listen: Vec<Place>,
    /// Certificate and key.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// The authority that signs certificates of clients.
    pub client_authority: Option<PathBuf>,
    /// The role of certificates that the file of tokens does not name.
    pub certificate_role: Option<Role>,
    /// The file of tokens.
    pub tokens: Option<PathBuf>,
    /// The role of other users of the Unix socket.
    pub group_role: Option<Role>,
    /// Names of this machine.
    pub hosts: Vec<String>,
    /// Whether `/metrics` needs no token.
    pub has_open_metrics: bool,
    /// The file of the audit log; standard error without one.
    pub audit: Option<PathBuf>,
    /// Routers by name and control socket.
    pub routers: Vec<(String, PathBuf)>,
    /// Services with saved configurations in other directories than the usual ones.
    pub services: Vec<Saved>,
    /// The control plane's socket.
    pub control_plane: Option<PathBuf>,
    /// The program that does long work.
    pub program: PathBuf,
}

/// Why the service does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Over TCP everybody could do everything.
    #[error(
        "{0}: over TCP each client needs a token or a certificate; give --tokens FILE, or --tls and --client-ca FILE"
    )]
    Open(SocketAddr),
    /// Tokens would pass the network as they are.
    #[error("{0}: beyond this machine TCP needs TLS; give --tls CERT KEY, or listen at 127.0.0.1")]
    Plain(SocketAddr),
    /// Client certificates need TLS.
    #[error("--client-ca needs --tls CERT KEY")]
    NoTls,
    /// A file cannot be read or written.
    #[error("{0}: {1}")]
    File(PathBuf, std::io::Error),
    /// Others may read or change it.
    #[error("{0}: other users may read or change it; chmod 600 it")]
    Readable(PathBuf),
    /// A line of it is wrong.
    #[error("{0}: {1}")]
    Tokens(PathBuf, BadLine),
    /// TLS cannot be had.
    #[error(transparent)]
    Tls(#[from] tls::Error),
    /// A socket cannot be had.
    #[error(transparent)]
    Socket(#[from] serve::Error),
    /// The system gives no threads or descriptors.
    #[error("the service cannot start: {0}")]
    System(#[from] std::io::Error),
}

/// What ends a service.
pub struct End(watch::Sender<bool>);

impl End {
    /// Ends it.
    pub fn now(&self) {
        self.0.send_replace(true);
    }
}

/// Says when a service ends.
pub struct Ending(watch::Receiver<bool>);

/// A pair of these.
pub fn ending() -> (End, Ending) {
    let (sender, receiver) = watch::channel(false);
    (End(sender), Ending(receiver))
}

/// The text of the file of tokens, which only its owner may change.
fn tokens(path: &Path) -> Result<String, Error> {
    use std::os::unix::fs::MetadataExt as _;
    let failed = |why| Error::File(path.to_owned(), why);
    // Hashes may be read by a group, but by nobody else.
    if std::fs::metadata(path).map_err(failed)?.mode() & 0o037 != 0 {
        return Err(Error::Readable(path.to_owned()));
    }
    std::fs::read_to_string(path).map_err(failed)
}

fn access(options: &Options) -> Result<Access, Error> {
    let text = options.tokens.as_deref().map(tokens).transpose()?.unwrap_or_default();
    let own = rustix::process::geteuid().as_raw();
    let group_role = options.group_role.unwrap_or(Role::Operator);
    let named = |why| Error::Tokens(options.tokens.clone().unwrap_or_default(), why);
    Access::new(&text, own, group_role, options.certificate_role).map_err(named)
}

fn audit(options: &Options) -> Result<Audit, Error> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let Some(path) = &options.audit else { return Ok(Audit::new(std::io::stderr())) };
    let opened = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    opened.map(Audit::new).map_err(|why| Error::File(path.clone(), why))
}

/// Refuses ports that would be open to everybody.
fn check(options: &Options, address: SocketAddr, has_entries: bool) -> Result<(), Error> {
    let is_authenticated = has_entries || options.client_authority.is_some();
    match (is_authenticated, &options.tls) {
        (false, _) => Err(Error::Open(address)),
        (true, None) if !address.ip().is_loopback() => Err(Error::Plain(address)),
        _ => Ok(()),
    }
}

/// Runs the service until `ending` says that it ends. `ready` is called with the addresses of TCP sockets when all sockets listen, and before
/// another thread starts; if it fails, nothing is served.
///
/// # Errors
/// See [`Error`].
pub fn run(
    mut options: Options,
    ending: Ending,
    ready: impl FnOnce(&[SocketAddr]) -> std::io::Result<()>,
) -> Result<(), Error> {
    let Ending(ending) = ending;
    let access = access(&options)?;
    let has_entries = access.has_entries();
    if options.client_authority.is_some() && options.tls.is_none() {
        return Err(Error::NoTls);
    }
    let tls = options.tls.clone().map(|(certificate, key)| {
        let client_authority = options.client_authority.clone();
        tls::acceptor(&tls::Files {
            certificate,
            key,
            client_authority,
            has_tokens: has_entries || options.has_open_metrics,
        })
    });
    let tls = tls.transpose()?;
    let routers = Running::new(
        std::mem::take(&mut options.routers),
        std::mem::take(&mut options.services),
        options.control_plane.clone(),
        std::mem::take(&mut options.program),
    );
    let shared = Shared::new(Parts {
        routers: Arc::new(routers),
        access,
        audit: audit(&options)?,
        hosts: options.hosts.clone(),
        has_open_metrics: options.has_open_metrics,
    });
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(48).build()?;
    let places = std::mem::take(&mut options.listen);
    let done = runtime.block_on(async {
        let service = Service::new(App::new(shared.clone()), tls, ending.clone());
        let (mut sockets, mut addresses) = (Vec::new(), Vec::new());
        for place in places {
            let socket = Socket::new(place)?;
            if let Some(address) = socket.address() {
                check(&options, address, has_entries)?;
                addresses.push(address);
            }
            sockets.push(socket);
        }
        ready(&addresses)?;
        // Others may have filled the directory of temporary files, so nobody waits for it.
        let _ = std::thread::Builder::new().name("sweep".into()).spawn(scratch::sweep);
        for socket in sockets {
            tokio::spawn(service.clone().listen(socket));
        }
        let mut ending = ending;
        let _ = ending.wait_for(|ending| *ending).await;
        service.ended().await;
        Ok(())
    });
    shared.jobs.end_all();
    runtime.shutdown_background();
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_never_open_to_everybody() {
        let tls = || Some((PathBuf::from("c"), PathBuf::from("k")));
        let with = |tls, authority: bool| Options {
            tls,
            client_authority: authority.then(PathBuf::new),
            ..Options::default()
        };
        for (options, address, entries, accepted) in [
            (with(None, false), "127.0.0.1:1", false, false),
            (with(None, false), "127.0.0.1:1", true, true),
            (with(None, false), "[::1]:1", true, true),
            (with(None, false), "192.0.2.1:1", true, false),
            (with(None, false), "0.0.0.0:1", true, false),
            (with(tls(), false), "0.0.0.0:1", false, false),
            (with(tls(), false), "0.0.0.0:1", true, true),
            (with(tls(), true), "0.0.0.0:1", false, true),
        ] {
            assert_eq!(
                check(&options, address.parse().unwrap(), entries).is_ok(),
                accepted,
                "{options:?} {address}"
            );
        }
    }
}
