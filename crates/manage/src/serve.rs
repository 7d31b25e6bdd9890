// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sockets and connections.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use ctl::{Listener, SocketFile};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::access::Peer;
use crate::app::App;
use crate::limits::{Connections, Way};
use crate::patient::Patient;
use crate::tls;

/// How long the header of a request may take to come.
const TO_COME: Duration = Duration::from_secs(10);
/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long requests under way may take when the service ends.
const TO_END: Duration = Duration::from_secs(5);
/// The bytes of a request's header at most.
const HEADER: usize = 16 << 10;
/// The headers of a request at most.
const HEADERS: usize = 64;
/// How long is waited when the system gives no connection, as without descriptors.
const AGAIN: Duration = Duration::from_millis(100);

/// Where to listen.
#[derive(Debug)]
pub enum Place {
    /// A Unix socket, for its owner alone or for a group.
    Unix(PathBuf, Option<u32>),
    /// A TCP port.
    Tcp(SocketAddr),
    /// A socket that was handed over.
    Inherited(OwnedFd),
}

/// Sockets that systemd hands over (sd_listen_fds(3)).
pub fn inherited() -> impl Iterator<Item = Place> {
    ports::inherited().into_iter().map(|(_, descriptor)| Place::Inherited(descriptor))
}

/// A socket that listens.
pub enum Socket {
    /// Of Unix; the file goes with it.
    Unix(UnixListener, Option<SocketFile>),
    /// Of TCP.
    Tcp(TcpListener),
}

/// Why a socket cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen at {place}: {why}")]
pub struct Error {
    place: String,
    why: std::io::Error,
}

impl Socket {
    /// Listens. Must be called on the runtime.
    ///
    /// # Errors
    /// The system refuses.
    pub fn new(place: Place) -> Result<Socket, Error> {
        let name = match &place {
            Place::Unix(path, _) => path.display().to_string(),
            Place::Tcp(address) => address.to_string(),
            Place::Inherited(_) => "the socket that was handed over".into(),
        };
        Socket::open(place).map_err(|why| Error { place: name, why })
    }

    fn open(place: Place) -> std::io::Result<Socket> {
        let unix = |listener: std::os::unix::net::UnixListener, file| {
            listener.set_nonblocking(true)?;
            UnixListener::from_std(listener).map(|listener| Socket::Unix(listener, file))
        };
        let tcp = |listener: std::net::TcpListener| {
            listener.set_nonblocking(true)?;
            TcpListener::from_std(listener).map(Socket::Tcp)
        };
        match place {
            Place::Tcp(address) => tcp(std::net::TcpListener::bind(address)?),
            Place::Unix(path, group) => {
                if let Some(directory) = path.parent() {
                    std::fs::create_dir_all(directory)?;
                }
                match Listener::unix(&path, group)? {
                    Listener::Unix(listener, file) => unix(listener, Some(file)),
                    _ => Err(std::io::ErrorKind::Unsupported.into()),
                }
            }
            Place::Inherited(descriptor) => {
                let is_unix =
                    rustix::net::sockopt::socket_domain(&descriptor)? == rustix::net::AddressFamily::UNIX;
                if is_unix { unix(descriptor.into(), None) } else { tcp(descriptor.into()) }
            }
        }
    }

    /// The address of a TCP socket.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Socket::Tcp(listener) => listener.local_addr().ok(),
            Socket::Unix(..) => None,
        }
    }
}

/// The first of two futures to be ready.
enum First<A, B> {
    One(A),
    Other(B),
}

async fn first<A, B>(one: impl Future<Output = A>, other: impl Future<Output = B>) -> First<A, B> {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|cx| match (other.as_mut().poll(cx), one.as_mut()) {
        (Poll::Ready(done), _) => Poll::Ready(First::Other(done)),
        (Poll::Pending, one) => one.poll(cx).map(First::One),
    })
    .await
}

/// Waits until the service ends.
async fn over(ending: &mut watch::Receiver<bool>) {
    let _ = ending.wait_for(|ending| *ending).await;
}

/// What all connections share.
#[derive(Clone)]
pub struct Service {
    /// What answers.
    pub app: App,
    /// TLS of TCP connections.
    pub tls: Option<TlsAcceptor>,
    connections: Arc<Mutex<Connections>>,
    /// Its value becomes true when the service ends.
    ending: watch::Receiver<bool>,
}

/// A connection's place among those that may be there.
struct Admitted(Arc<Mutex<Connections>>, Way, String);

impl Drop for Admitted {
    fn drop(&mut self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).end(self.1, &self.2);
    }
}

impl Service {
    /// A service that ends when `ending` says so.
    pub fn new(app: App, tls: Option<TlsAcceptor>, ending: watch::Receiver<bool>) -> Service {
        Service { app, tls, connections: Arc::default(), ending }
    }

    fn admit(&self, peer: &Peer) -> Option<Admitted> {
        let (way, key) = (self.app.shared().access.way(peer), peer.key());
        let admitted = self.connections.lock().unwrap_or_else(PoisonError::into_inner).admit(way, &key);
        admitted.then(|| Admitted(self.connections.clone(), way, key))
    }

    /// Accepts connections until the service ends.
    pub async fn listen(self, socket: Socket) {
        let mut ending = self.ending.clone();
        loop {
            let accepted = match first(accept(&socket), over(&mut ending)).await {
                First::One(accepted) => accepted,
                First::Other(()) => return,
            };
            let Ok((stream, peer)) = accepted else {
                tokio::time::sleep(AGAIN).await;
                continue;
            };
            // One too many is closed at once.
            let Some(admitted) = self.admit(&peer) else { continue };
            let service = self.clone();
            tokio::spawn(async move {
                service.connected(stream, peer).await;
                drop(admitted);
            });
        }
    }

    async fn connected(&self, stream: Accepted, mut peer: Peer) {
        match (stream, &self.tls) {
            (Accepted::Unix(stream), _) => self.converse(stream, peer).await,
            (Accepted::Tcp(stream), None) => self.converse(stream, peer).await,
            (Accepted::Tcp(stream), Some(acceptor)) => {
                let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await else {
                    return;
                };
                peer.certificate = tls::fingerprint(stream.get_ref().1);
                self.converse(stream, peer).await;
            }
        }
    }

    /// Serves the requests of a connection.
    async fn converse(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, peer: Peer) {
        let (app, peer) = (self.app.clone(), Arc::new(peer));
        let answer = service_fn(move |request: hyper::Request<Incoming>| {
            let (app, peer) = (app.clone(), peer.clone());
            async move { app.answer(&peer, request.map(Body::new)).await }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(TO_COME)
            .max_headers(HEADERS)
            .max_buf_size(HEADER)
            .serve_connection(TokioIo::new(Patient::new(stream)), answer);
        let mut connection = pin!(connection);
        let mut ending = self.ending.clone();
        let done = first(connection.as_mut(), over(&mut ending)).await;
        if matches!(done, First::Other(())) {
            connection.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(TO_END, connection).await;
        }
    }

    /// Waits until all connections have ended, but not for long.
    pub async fn ended(self) {
        let Service { connections, .. } = self;
        let none = async {
            while connections.lock().unwrap_or_else(PoisonError::into_inner).any() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let _ = tokio::time::timeout(TO_END, none).await;
    }
}

/// A connection that was accepted.
enum Accepted {
    Unix(tokio::net::UnixStream),
    Tcp(tokio::net::TcpStream),
}

async fn accept(socket: &Socket) -> std::io::Result<(Accepted, Peer)> {
    match socket {
        Socket::Unix(listener, _) => {
            let (stream, _) = listener.accept().await?;
            let peer = Peer { uid: Some(stream.peer_cred()?.uid()), ..Peer::default() };
            Ok((Accepted::Unix(stream), peer))
        }
        Socket::Tcp(listener) => {
            let (stream, from) = listener.accept().await?;
            stream.set_nodelay(true)?;
            // Addresses of one IPv6 network count as one client.
            let peer = Peer { address: client_of(from), ..Peer::default() };
            Ok((Accepted::Tcp(stream), peer))
        }
    }
}

/// Whose connections are counted together: an IPv4 address, or a /64 of IPv6.
fn client_of(from: SocketAddr) -> String {
    match from.ip().to_canonical() {
        std::net::IpAddr::V6(address) if !address.is_loopback() => {
            let network = std::net::Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX));
            format!("{network}/64")
        }
        address => address.to_string(),
    }
}

#[cfg(test)]
mod tests;
