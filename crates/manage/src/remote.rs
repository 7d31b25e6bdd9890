// SPDX-License-Identifier: MIT OR Apache-2.0
//! A client of the API, for commands with `--remote`: one request, one answer, over a connection that is kept.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{self, ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(90);
/// The largest answer.
const LARGEST: u64 = 256 << 20;
/// Bytes that are read at once.
const AT_ONCE: usize = 64 << 10;
/// How often a request is repeated that came too soon after others, and the pause before that.
const REPEATS: usize = 60;
const PAUSE: Duration = Duration::from_secs(1);
/// Authorities of the system.
const SYSTEM: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Where a service is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// At a Unix socket.
    Unix(PathBuf),
    /// At `host:port` of the URL, with TLS or without.
    Tcp {
        /// The host and port.
        authority: String,
        /// Whether TLS is used.
        tls: bool,
    },
}

/// A service, and which of its routers is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Where it is.
    pub place: Place,
    /// The router; the only one if it is not named.
    pub router: Option<String>,
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing answers there.
    #[error("{place}: {why}; see whether 'junctor manage' listens there")]
    Unreachable {
        /// Where.
        place: String,
        /// Why not.
        why: std::io::Error,
    },
    /// TLS cannot be used: why, and what to do.
    #[error("TLS: {0}; {1}")]
    Tls(String, &'static str),
    /// A token would pass a network as it is.
    #[error(
        "http is for this machine only, because a token would pass the network unencrypted; use https://{0}"
    )]
    Plain(String),
    /// The answer is no HTTP, or too large.
    #[error("the answer is not understood: {0}; see whether 'junctor manage' listens there")]
    Odd(String),
    /// The service refused: the status, and its words.
    #[error("{1}")]
    Refused(u16, String),
    /// Several routers run there.
    #[error("{0}; name one as the last part of --remote: URL/NAME")]
    Which(String),
}

/// Reads `unix:PATH[#ROUTER]`, `http://HOST:PORT[/ROUTER]` or `https://HOST:PORT[/ROUTER]`.
///
/// # Errors
/// It is none of these.
pub fn parse(url: &str) -> Result<Remote, String> {
    let expected =
        "expected https://HOST:PORT[/ROUTER], http://127.0.0.1:PORT[/ROUTER] or unix:PATH[#ROUTER]";
    let is_word = |text: &str| {
        !text.is_empty()
            && !text.contains(|c: char| c.is_whitespace() || c.is_control() || "/?#@".contains(c))
    };
    let (rest, separator, scheme) =
        match (url.strip_prefix("unix:"), url.strip_prefix("https://"), url.strip_prefix("http://")) {
            (Some(rest), ..) => (rest, '#', 0),
            (_, Some(rest), _) => (rest, '/', 1),
            (_, _, Some(rest)) => (rest, '/', 2),
            _ => return Err(expected.into()),
        };
    let (at, router) = rest.split_once(separator).map_or((rest, ""), |(at, router)| (at, router));
    let router = Some(router).filter(|router| !router.is_empty()).map(str::to_owned);
    let is_port = |at: &str| at.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let is_good = router.as_deref().is_none_or(is_word)
        && if scheme == 0 { !at.is_empty() } else { is_word(at) && is_port(at) };
    if !is_good {
        return Err(expected.into());
    }
    let place = match scheme {
        0 => Place::Unix(at.into()),
        scheme => Place::Tcp { authority: at.to_owned(), tls: scheme == 1 },
    };
    Ok(Remote { place, router })
}

/// A part of a path: what a URL cannot have is encoded.
pub fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut all, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => all.push(byte.into()),
            other => all += &format!("%{other:02X}"),
        }
        all
    })
}

/// A connection to a service.
pub struct Service {
    remote: Remote,
    token: Option<String>,
    authority: Option<PathBuf>,
    /// One that the last request has left open.
    held: Mutex<Option<Connection>>,
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

struct Connection {
    host: String,
    stream: Box<dyn Stream>,
}

impl Service {
    /// The service at a place. The token is shown with each request; `authority` has signed the service's certificate.
    pub fn new(remote: Remote, token: Option<String>, authority: Option<PathBuf>) -> Service {
        Service { remote, token, authority, held: Mutex::default() }
    }

    /// The path of the router that is meant.
    ///
    /// # Errors
    /// There is none, or there are several.
    pub fn router(&self) -> Result<String, Error> {
        if let Some(name) = &self.remote.router {
            return Ok(format!("/api/v1/routers/{}", encoded(name)));
        }
        let answer = self.ask("GET", "/api/v1/routers", None)?;
        let list = answer["routers"].as_array();
        let names: Vec<&str> =
            list.into_iter().flatten().filter_map(|router| router["name"].as_str()).collect();
        match names[..] {
            [one] => Ok(format!("/api/v1/routers/{}", encoded(one))),
            [] => Err(Error::Which("no router runs there".into())),
            _ => Err(Error::Which(format!("several routers run there: {}", names.join(", ")))),
        }
    }

    /// The last part of the URL.
    pub fn named(&self) -> Option<&str> {
        self.remote.router.as_deref()
    }

    /// Asks, and returns the answer's JSON.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn ask(&self, verb: &str, path: &str, body: Option<&Value>) -> Result<Value, Error> {
        let bytes = self.exchange(verb, path, body)?;
        serde_json::from_slice(&bytes).map_err(|why| Error::Odd(why.to_string()))
    }

    /// Asks for something that is no JSON, such as the result of a job.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn fetch(&self, path: &str) -> Result<Vec<u8>, Error> {
        self.exchange("GET", path, None)
    }

    /// Asks again if too many requests came before this one, which has not been looked at then.
    fn exchange(&self, verb: &str, path: &str, body: Option<&Value>) -> Result<Vec<u8>, Error> {
        for _ in 0..REPEATS {
            match self.once(verb, path, body) {
                Err(Error::Refused(429, _)) => std::thread::sleep(PAUSE),
                done => return done,
            }
        }
        self.once(verb, path, body)
    }

    fn once(&self, verb: &str, path: &str, body: Option<&Value>) -> Result<Vec<u8>, Error> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner).take();
        // What changes something is asked once: a kept connection may end while it is on its way.
        if let Some(mut connection) = held.filter(|_| verb == "GET")
            && let Ok(bytes) = self.over(&mut connection, verb, path, body)
        {
            return self.keep(connection, &bytes);
        }
        let mut connection = self.connect()?;
        let done = self.over(&mut connection, verb, path, body);
        let bytes = done.map_err(|why| broken(&connection.host, why))?;
        self.keep(connection, &bytes)
    }

    /// Keeps a connection on which another request may follow.
    fn keep(&self, connection: Connection, bytes: &[u8]) -> Result<Vec<u8>, Error> {
        let (body, stays) = understood(bytes)?;
        if stays {
            *self.held.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection);
        }
        Ok(body)
    }

    /// One request and its answer on a connection.
    fn over(
        &self,
        connection: &mut Connection,
        verb: &str,
        path: &str,
        body: Option<&Value>,
    ) -> std::io::Result<Vec<u8>> {
        let mut request = format!("{verb} {path} HTTP/1.1\r\nHost: {}\r\nAccept: */*\r\n", connection.host);
        if let Some(token) = &self.token {
            request += &format!("Authorization: Bearer {token}\r\n");
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        if !body.is_empty() {
            request += &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        }
        request += "\r\n";
        request += &body;
        connection.stream.write_all(request.as_bytes())?;
        connection.stream.flush()?;
        whole(&mut connection.stream)
    }

    fn connect(&self) -> Result<Connection, Error> {
        let unreachable = |place: &str| {
            let place = place.to_owned();
            move |why| Error::Unreachable { place, why }
        };
        match &self.remote.place {
            Place::Unix(path) => {
                let failed = || unreachable(&path.display().to_string());
                let stream = UnixStream::connect(path).map_err(failed())?;
                stream.set_read_timeout(Some(PATIENCE)).map_err(failed())?;
                Ok(Connection { host: "localhost".into(), stream: Box::new(stream) })
            }
            Place::Tcp { authority, tls } => {
                let stream = TcpStream::connect(authority).map_err(unreachable(authority))?;
                stream.set_read_timeout(Some(PATIENCE)).map_err(unreachable(authority))?;
                let host = authority.clone();
                if *tls {
                    return Ok(Connection { host, stream: Box::new(self.encrypted(authority, stream)?) });
                }
                let is_local = stream.peer_addr().is_ok_and(|address| address.ip().is_loopback());
                if is_local {
                    Ok(Connection { host, stream: Box::new(stream) })
                } else {
                    Err(Error::Plain(host))
                }
            }
        }
    }

    fn encrypted(
        &self,
        authority: &str,
        stream: TcpStream,
    ) -> Result<StreamOwned<ClientConnection, TcpStream>, Error> {
        let bad = |why: String| Error::Tls(why, "name the authority of the service by --ca FILE");
        let path = self.authority.as_deref().unwrap_or(Path::new(SYSTEM));
        let named = |why: &dyn std::fmt::Display| bad(format!("{}: {why}", path.display()));
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(path).map_err(|why| named(&why))? {
            // The system may have some that are of no use here.
            let _ = roots.add(certificate.map_err(|why| named(&why))?);
        }
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        let config = config
            .with_safe_default_protocol_versions()
            .map_err(|why: rustls::Error| bad(why.to_string()))?;
        let config = config.with_root_certificates(roots).with_no_client_auth();
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host).trim_matches(['[', ']']);
        let name = ServerName::try_from(host.to_owned()).map_err(|why| bad(why.to_string()))?;
        let connection = ClientConnection::new(Arc::new(config), name).map_err(|why| bad(why.to_string()))?;
        Ok(StreamOwned::new(connection, stream))
    }
}

/// What broke a conversation off.
fn broken(place: &str, why: std::io::Error) -> Error {
    use rustls::{AlertDescription, CertificateError, Error as Tls};
    let found = why.get_ref().and_then(|inner| inner.downcast_ref::<Tls>());
    let fix = match found {
        None => return Error::Unreachable { place: place.to_owned(), why },
        Some(Tls::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => "name the service by a name that its certificate has",
        Some(Tls::InvalidCertificate(
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. },
        )) => "compare the clocks of both machines, or renew the certificate",
        Some(Tls::InvalidMessage(_)) => "see whether the service was started with --tls",
        Some(Tls::AlertReceived(AlertDescription::CertificateRequired)) => {
            "the service wants a certificate, which --remote has not; give the service --tokens FILE"
        }
        Some(_) => "name the authority of the service by --ca FILE",
    };
    Error::Tls(format!("{place}: {why}"), fix)
}

/// What the header of an answer says.
struct Header {
    status: u16,
    /// Where its body begins.
    begin: usize,
    /// Where that ends, if the header says so.
    end: Option<usize>,
    /// Whether the connection stays.
    stays: bool,
}

/// The header of an answer, if it has come whole.
fn header(bytes: &[u8]) -> Result<Option<Header>, Error> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut response = httparse::Response::new(&mut headers);
    let parsed = response.parse(bytes).map_err(|why| Error::Odd(why.to_string()))?;
    let httparse::Status::Complete(begin) = parsed else { return Ok(None) };
    let text = |name: &str| {
        let found = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        found.and_then(|header| std::str::from_utf8(header.value).ok())
    };
    let length = text("content-length").and_then(|text| text.parse::<usize>().ok());
    let stays = !text("connection").is_some_and(|text| text.eq_ignore_ascii_case("close"));
    let end = length.and_then(|length| begin.checked_add(length));
    Ok(Some(Header { status: response.code.unwrap_or(0), begin, end, stays }))
}

/// The bytes of an answer: as many as its header announces, or all until the connection ends.
fn whole(stream: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let (mut bytes, mut part, mut end) = (Vec::new(), vec![0; AT_ONCE], None);
    while end.is_none_or(|end| bytes.len() < end) && bytes.len() as u64 <= LARGEST {
        let n = match stream.read(&mut part) {
            // A service that closes TLS without saying so has still sent all that the header announces.
            Err(why) if why.kind() == ErrorKind::UnexpectedEof => 0,
            Err(why) if why.kind() == ErrorKind::Interrupted => continue,
            read => read?,
        };
        if n == 0 && bytes.is_empty() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if n == 0 {
            break;
        }
        bytes.extend_from_slice(&part[..n]);
        if end.is_none() {
            match header(&bytes) {
                Ok(found) => end = found.and_then(|header| header.end),
                // It is no answer, and more of it is none either.
                Err(_) => break,
            }
        }
    }
    Ok(bytes)
}

/// The body of an answer, and whether the connection stays; or what its problem says.
fn understood(bytes: &[u8]) -> Result<(Vec<u8>, bool), Error> {
    let odd = |why: &str| Error::Odd(why.to_owned());
    let Header { status, begin, end, stays } = header(bytes)?.ok_or_else(|| odd("it was cut short"))?;
    let end = end.ok_or_else(|| odd("its length is not known"))?;
    let body = bytes.get(begin..end).ok_or_else(|| odd("it was cut short, or is too large"))?;
    if (200..300).contains(&status) {
        return Ok((body.to_vec(), stays && bytes.len() == end));
    }
    let value: Value = serde_json::from_slice(body).map_err(|why| odd(&why.to_string()))?;
    let detail = value["detail"].as_str().unwrap_or("the service refused");
    let words = match value["fix"].as_str() {
        Some(fix) => format!("{detail}; {fix}"),
        None => detail.to_owned(),
    };
    Err(Error::Refused(status, words))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn places_are_understood() {
        let tcp = |authority: &str, tls, router: Option<&str>| {
            Ok(Remote {
                place: Place::Tcp { authority: authority.into(), tls },
                router: router.map(str::to_owned),
            })
        };
        assert_eq!(parse("https://r.example:8473/edge"), tcp("r.example:8473", true, Some("edge")));
        assert_eq!(parse("https://r.example:8473/"), tcp("r.example:8473", true, None));
        assert_eq!(parse("http://[::1]:1"), tcp("[::1]:1", false, None));
        assert_eq!(parse("unix:/a/b#edge").unwrap().router.as_deref(), Some("edge"));
        for bad in [
            "",
            "r.example:1",
            "ftp://x:1",
            "https://x",
            "https://x:99999",
            "https://a@b:1",
            "https://x:1/a/b",
            "unix:",
            "https://x\r\n:1",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert_eq!(encoded("a/b.c d\r\n"), "a%2Fb.c%20d%0D%0A");
    }

    #[test]
    fn answers_are_understood() {
        let found = |text: &str| understood(text.as_bytes()).map_err(|why| why.to_string());
        assert_eq!(found("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]"), Ok((b"[]".to_vec(), true)));
        assert_eq!(found("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]more"), Ok((b"[]".to_vec(), false)));
        let closed = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n[]";
        assert_eq!(found(closed), Ok((b"[]".to_vec(), false)));
        for text in [closed, "SSH-2.0-x\r\n"] {
            assert_eq!(whole(&mut text.as_bytes()).unwrap(), text.as_bytes());
        }
        assert!(whole(&mut &b""[..]).is_err());
        let refused = "HTTP/1.1 404 X\r\ncontent-length: 28\r\n\r\n{\"detail\":\"no\",\"fix\":\"look\"}";
        assert_eq!(found(refused), Err("no; look".into()));
        for odd in
            ["", "SSH-2.0", "HTTP/1.1 200 OK\r\n\r\n[]", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n[]"]
        {
            assert!(found(odd).unwrap_err().contains("not understood"), "{odd}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_understood_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = understood(&bytes);
            let _ = understood(&[&b"HTTP/1.1 200 OK\r\n"[..], &bytes].concat());
        }
    }
}
