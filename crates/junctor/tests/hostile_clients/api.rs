// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adversarial clients of the management API, over its Unix socket and over TLS. One who behaves is served, the service holds a bounded
//! number of bytes, a worker executes a bounded number of calls between two rounds, and all is given back when they have gone.

use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::channel;

use manage::access::new_token;
use manage::route::Role;
use manage::serve::Place;
use manage::service;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::*;

/// Those at the Unix socket, and those that come by TLS, each from one of three addresses.
const AT_SOCKET: u64 = 2;
const BY_TLS: u64 = 6;
/// What each does at least, until enough calls were made, and connections that it keeps at most.
const STEPS: usize = 120;
const KEPT: usize = 12;
/// The address that shows wrong tokens.
const GUESSES: u8 = 4;
/// What the process may take: 208 MiB that the API lets all clients hold, 64 MiB at the control socket, answers under way, and what the heap adds.
const MOST_BYTES: u64 = 512 << 20;
/// Calls that must have come to the router, or the test shows nothing.
const ENOUGH_CALLS: u64 = 40;
const SHORT: Duration = Duration::from_millis(10);

/// A connection to the API.
enum Link {
    Unix(UnixStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Link {
    fn set_patience(&self, limit: Duration) {
        let limit = Some(limit);
        let done = match self {
            Link::Unix(stream) => stream.set_read_timeout(limit).and(stream.set_write_timeout(limit)),
            Link::Tls(stream) => {
                stream.sock.set_read_timeout(limit).and(stream.sock.set_write_timeout(limit))
            }
        };
        done.unwrap();
    }
}

impl std::io::Read for Link {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Link::Unix(stream) => stream.read(into),
            Link::Tls(stream) => stream.read(into),
        }
    }
}

impl std::io::Write for Link {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Link::Unix(stream) => stream.write(bytes),
            Link::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Link::Unix(stream) => stream.flush(),
            Link::Tls(stream) => stream.flush(),
        }
    }
}

/// Where the service is, and what clients know of it.
struct Target {
    socket: PathBuf,
    address: SocketAddr,
    tls: Arc<ClientConfig>,
    operator: String,
    viewer: String,
}

impl Target {
    /// Connects, over TLS from this address of this machine.
    fn connect(&self, from: Option<u8>) -> Option<Link> {
        use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
        let Some(last) = from else { return UnixStream::connect(&self.socket).ok().map(Link::Unix) };
        let made = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&made, &SocketAddr::from(([127, 0, 0, last], 0))).unwrap();
        connect(&made, &self.address).ok()?;
        let name = ServerName::try_from("localhost").unwrap();
        let tls = ClientConnection::new(self.tls.clone(), name).unwrap();
        Some(Link::Tls(Box::new(StreamOwned::new(tls, made.into()))))
    }

    /// A request with a token, which the Unix socket does not need.
    fn request(&self, verb: &str, path: &str, token: &str, more: &str) -> Vec<u8> {
        format!(
            "{verb} /api/v1/{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{more}\r\n"
        )
        .into_bytes()
    }

    /// The status and the body of an answer to one who behaves; nothing if the connection ended without.
    fn ask(&self, path: &str) -> Option<(u16, String)> {
        let mut link = self.connect(Some(1))?;
        link.set_patience(Duration::from_secs(30));
        link.write_all(&self.request("GET", path, &self.viewer, "Connection: close\r\n")).ok()?;
        let mut bytes = Vec::new();
        // The end of TLS may be missing.
        let _ = link.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
    }

    /// One who behaves gets what it asks for, at the latest when somebody makes room.
    fn get(&self, path: &str) -> String {
        let mut got = String::new();
        let served = testbed::rig::wait_for("an answer", Duration::from_secs(60), || {
            self.ask(path).is_some_and(|(status, body)| {
                got = body;
                status == 200
            })
        });
        assert!(served.is_ok(), "{path} is not served");
        got
    }
}

/// One who sends what comes to mind.
struct Hostile<'a> {
    rng: fastrand::Rng,
    target: &'a Target,
    from: Option<u8>,
    link: Option<Link>,
    kept: Vec<Link>,
}

impl Hostile<'_> {
    fn send(&mut self, bytes: &[u8]) {
        if self.link.is_none() {
            self.link = self.target.connect(self.from);
            self.link.iter().for_each(|link| link.set_patience(SHORT));
        }
        let Some(link) = &mut self.link else { return };
        if link.write_all(bytes).is_err_and(|why| !is_late(&why)) {
            self.link = None;
        }
    }

    fn say(&mut self, verb: &str, path: &str, more: &str, times: usize) {
        let request = self.target.request(verb, path, &self.target.operator, more);
        self.send(&request.repeat(times));
    }

    fn put(&mut self, length: usize, body: &[u8]) {
        let more = format!("Content-Type: application/json\r\nContent-Length: {length}\r\n");
        let head = self.target.request("PUT", "routers/m/handlers/m.take", &self.target.operator, &more);
        self.send(&[&head[..], body].concat());
    }

    fn act(&mut self) {
        match self.rng.u8(..16) {
            0 => self.say("GET", "routers/m/handlers/m.probe", "", 1),
            // It never reads what it asks for.
            1 => self.say("GET", "routers/m/handlers/m.table", "", 20),
            2 => self.say("GET", "routers", "", 10),
            3 => self.send(b"GET /api/v1/routers HTTP/1.1\r\nHost: loc"),
            4 => {
                let length = self.rng.usize(..100_000);
                self.say("GET", &"a".repeat(length), &format!("X: {}\r\n", "b".repeat(length)), 1);
            }
            5 => self.put(4 << 20, &[b' '; 1 << 19]),
            6 => {
                let body = format!("{{\"value\":[1{}]}}", ",1".repeat(1 << 17));
                self.put(body.len(), body.as_bytes());
            }
            7 => {
                let length = self.rng.usize(..100);
                self.put(length, b"{\"value\":\"half");
            }
            8 => {
                let more = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n";
                self.say("PUT", "routers/m/handlers/m.take", more, 1);
                let sizes: [&[u8]; 4] =
                    [b"ffffffffffffffff\r\n", b"-1\r\n\r\n", b"5\r\n{\"v\"", b"0\r\n\r\n"];
                let size = sizes[self.rng.usize(..sizes.len())];
                self.send(size);
            }
            9 => {
                let noise: Vec<u8> = std::iter::repeat_with(|| self.rng.u8(..)).take(4096).collect();
                self.send(&noise);
            }
            // It costs much of what an address may ask, so one does it.
            10 if self.from == Some(GUESSES) => {
                let wrong = self.target.request("GET", "routers", "jt_0", "");
                self.send(&wrong);
            }
            11 => self.say("GET", "routers/m/live", "", 1),
            12 => {
                let body = "{\"points\":[\"m\"],\"time_s\":600}";
                let more = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
                self.say("POST", "routers/m/captures", &more, 1);
                self.send(body.as_bytes());
                let job = self.rng.u8(..8);
                if job < 4 {
                    self.say("DELETE", &format!("jobs/{job}"), "", 1);
                }
            }
            13 => {
                let link = self.link.take();
                self.kept.extend(link);
                self.kept.truncate(KEPT);
            }
            14 => self.link = None,
            _ => {
                let mut taken = vec![0; self.rng.usize(1..65_536)];
                let is_gone = |link: &mut Link| match link.read(&mut taken) {
                    Ok(n) => n == 0,
                    Err(why) => !is_late(&why),
                };
                if self.link.as_mut().is_some_and(is_gone) {
                    self.link = None;
                }
            }
        }
    }
}

fn is_late(why: &std::io::Error) -> bool {
    matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Certificate and key of a server, made by OpenSSL.
fn certificate(directory: &Path) -> (PathBuf, PathBuf) {
    let mut command = Command::new("openssl");
    command.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]);
    command.args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]);
    command.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    command.args(["-keyout", "key.pem", "-out", "cert.pem"]).current_dir(directory);
    assert!(command.output().unwrap().status.success());
    (directory.join("cert.pem"), directory.join("key.pem"))
}

/// Descriptors of this process.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn options(directory: &Path, router: &Path) -> (service::Options, [String; 2]) {
    let (certificate, key) = certificate(directory);
    let made = [Role::Operator, Role::Viewer].map(|role| new_token(role.name(), role).unwrap());
    let tokens = directory.join("tokens");
    std::fs::write(&tokens, made.each_ref().map(|(_, line)| format!("{line}\n")).concat()).unwrap();
    std::fs::set_permissions(&tokens, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let listen = vec![
        Place::Unix(directory.join("api.sock"), None),
        Place::Tcp(SocketAddr::from(([127, 0, 0, 1], 0))),
    ];
    let options = service::Options {
        listen,
        tls: Some((certificate, key)),
        tokens: Some(tokens),
        audit: Some(directory.join("audit")),
        routers: vec![("m".to_owned(), router.to_owned())],
        program: PathBuf::from(env!("CARGO_BIN_EXE_junctor")),
        ..service::Options::default()
    };
    (options, made.map(|(token, _)| token))
}

fn client_config(directory: &Path) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(directory.join("cert.pem")).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap();
    Arc::new(config.with_root_certificates(roots).with_no_client_auth())
}

/// Runs all adversarial clients at once, and asks as one who behaves while they are there and while they keep what they have.
fn attack(target: &Target) {
    std::thread::scope(|scope| {
        let of = |number: u64| {
            let from = (number >= AT_SOCKET).then_some(2 + (number % 3) as u8);
            Hostile { rng: fastrand::Rng::with_seed(number), target, from, link: None, kept: Vec::new() }
        };
        let all: Vec<_> = (0..AT_SOCKET + BY_TLS)
            .map(|number| {
                let mut client = of(number);
                scope.spawn(move || {
                    for step in 0..AT_MOST {
                        if step >= STEPS && CALLS.load(SeqCst) >= ENOUGH_CALLS {
                            break;
                        }
                        client.act();
                    }
                    client
                })
            })
            .collect();
        assert!(target.get("routers/m/handlers/m.probe").contains("here"));
        let staying: Vec<Hostile<'_>> = all.into_iter().map(|client| client.join().unwrap()).collect();
        assert!(target.get("routers/m/handlers/m.probe").contains("here"));
        drop(staying);
    });
}

#[test]
fn what_clients_of_the_api_do_is_bounded_and_given_back() {
    if testbed::rig::skip_without("what_clients_of_the_api_do_is_bounded_and_given_back", &["openssl"]) {
        return;
    }
    let mut router = router();
    let control = router.control();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("m.sock");
    std::thread::scope(|scope| {
        let _ends = Ends(&control);
        scope.spawn(|| router.run());
        let server =
            Server::start(Listener::unix(&path, None).unwrap(), Arc::new(Offered(control.clone(), 64)));
        let server = server.unwrap();
        let (options, [operator, viewer]) = options(directory.path(), &path);
        let ((end, ending), (ready, addresses)) = (service::ending(), channel());
        let serving = scope.spawn(move || {
            service::run(options, ending, |addresses| {
                ready.send(addresses[0]).unwrap();
                Ok(())
            })
        });
        let address = addresses.recv().unwrap();
        let tls = client_config(directory.path());
        let socket = directory.path().join("api.sock");
        let target = Target { socket, address, tls, operator, viewer };
        assert!(target.get("routers/m/handlers/m.probe").contains("here"));
        let (before, had) = (peak_bytes(), descriptors());
        attack(&target);
        let taken = peak_bytes() - before;
        println!("{} MiB were taken", taken >> 20);
        assert!(taken < MOST_BYTES, "{} MiB were taken", taken >> 20);
        // Connections, also those to the router, go with their clients.
        let released =
            testbed::rig::wait_for("descriptors", Duration::from_secs(60), || descriptors() <= had + 2);
        assert!(released.is_ok(), "{} descriptors, {had} before", descriptors());
        assert!(target.get("routers/m/handlers/m.probe").contains("here"));
        end.now();
        serving.join().unwrap().unwrap();
        server.end();
    });
    let (most, calls) = (MOST.load(SeqCst), CALLS.load(SeqCst));
    println!("{calls} calls, at most {most} between two rounds");
    assert!(most <= MOST_CALLS && calls >= ENOUGH_CALLS, "{most} of {calls} calls between two rounds");
}
