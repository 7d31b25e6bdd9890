// SPDX-License-Identifier: MIT OR Apache-2.0
//! The management plane of the lab: a small HTTP server, which runs as a plane of a deployment.
//!
//! It stands for the web server with a CGI script of the study. `GET /compute?rounds=N` computes something that takes one core for a
//! while. `GET /change?count=N&kind=route` has the user plane change a route, by a channel of the deployment (`icc`) or, from a guest, by its control socket, and answers how
//! long each change took; `kind=whole` changes the whole configuration.
//!
//! What a client may ask is bounded: the length of a request, the time that it may take to send it, the work, and how many are served
//! at once.

use std::hint::black_box;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Error;
use client::Connection;

/// Bytes of a request at most.
const LONGEST: usize = 4096;
/// Headers of a request at most.
const HEADERS: usize = 32;
/// How long a client may take to send a request, or to take the answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Requests that are served at once.
const AT_ONCE: usize = 8;
/// Rounds of computing that one request may ask for: some seconds.
const ROUNDS_MAX: u64 = 10_000_000_000;
/// Changes that one request may ask for.
const CHANGES_MAX: u64 = 100_000;

/// What the management plane serves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where to listen.
    pub listen: SocketAddr,
    /// The control socket of the user plane whose configuration is changed.
    pub control: Option<PathBuf>,
    /// The channel of calls that leads to it, instead.
    pub channel: Option<String>,
    /// The user plane's configuration.
    pub configuration: Option<PathBuf>,
}

/// Serves until it is ended.
///
/// # Errors
/// It cannot listen there.
pub fn run(args: &Settings) -> Result<(), Error> {
    let listener = TcpListener::bind(args.listen).map_err(Error::system(args.listen))?;
    errln!("listening at {}", args.listen);
    let args = Arc::new(args.clone());
    let busy = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let Ok(stream) = stream else { continue };
        if busy.fetch_add(1, Ordering::AcqRel) >= AT_ONCE {
            // Not even the reason: a peer that reads slowly must not hold up the others.
            busy.fetch_sub(1, Ordering::AcqRel);
            continue;
        }
        let (args, left) = (args.clone(), busy.clone());
        let served = std::thread::Builder::new().spawn(move || {
            // A client that has gone away is no failure of ours.
            let _ = serve(stream, &args);
            left.fetch_sub(1, Ordering::AcqRel);
        });
        if served.is_err() {
            busy.fetch_sub(1, Ordering::AcqRel);
        }
    }
    Ok(())
}

fn serve(mut stream: TcpStream, args: &Settings) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let (status, body) = match request(&mut stream)? {
        Ok(path) => match answer(&path, args) {
            Ok(body) => ("200 OK", body),
            Err(why) => ("400 Bad Request", json!({ "error": why.to_string() })),
        },
        Err(why) => ("400 Bad Request", json!({ "error": why })),
    };
    let body = body.to_string();
    let length = body.len();
    let head = "Content-Type: application/json\r\nConnection: close";
    stream.write_all(
        format!("HTTP/1.1 {status}\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}").as_bytes(),
    )
}

/// The path that is asked for, or what is wrong with the request.
fn request(stream: &mut TcpStream) -> io::Result<Result<String, &'static str>> {
    let (mut buffer, mut filled) = ([0; LONGEST], 0);
    let begun = Instant::now();
    loop {
        // A client that sends a byte now and then has no more time than others.
        let left = PATIENCE.checked_sub(begun.elapsed()).filter(|left| !left.is_zero());
        stream.set_read_timeout(Some(left.ok_or(io::ErrorKind::TimedOut)?))?;
        let read = stream.read(&mut buffer[filled..])?;
        filled += read;
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(&buffer[..filled]) {
            Ok(httparse::Status::Complete(_)) => {
                return Ok(match (request.method, request.path) {
                    (Some("GET"), Some(path)) => Ok(path.to_owned()),
                    _ => Err("only GET is known"),
                });
            }
            Ok(httparse::Status::Partial) if read == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(httparse::Status::Partial) if filled == LONGEST => return Ok(Err("the request is too long")),
            Ok(httparse::Status::Partial) => {}
            Err(_) => return Ok(Err("this is no HTTP")),
        }
    }
}

fn answer(path: &str, args: &Settings) -> Result<Value, Error> {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let value = |key: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(name, _)| *name == key).map(|(_, value)| value)
    };
    let number = |key: &str, most: u64| {
        let number = value(key).and_then(|text| text.parse::<u64>().ok());
        number
            .filter(|number| (1..=most).contains(number))
            .ok_or_else(|| Error::Setting(format!("{key} lies between 1 and {most}")))
    };
    match path {
        "/compute" => {
            let begun = Instant::now();
            let result = compute(number("rounds", ROUNDS_MAX)?);
            Ok(json!({ "result": result, "took_ns": begun.elapsed().as_nanos() as u64 }))
        }
        "/change" => {
            let count = number("count", CHANGES_MAX)?;
            let stream = connect(args)?;
            let client = client::Client::new(stream).map_err(client::lost)?;
            match value("kind") {
                Some("route") => Ok(routes(client, count)?),
                Some("whole") => {
                    let file = args
                        .configuration
                        .as_ref()
                        .ok_or_else(|| Error::nothing("this management plane knows no configuration"))?;
                    let text = std::fs::read_to_string(file).map_err(Error::system(file.display()))?;
                    Ok(configurations(client, count, &text)?)
                }
                _ => Err(Error::Setting("kind is route or whole".to_owned())),
            }
        }
        _ => Err(Error::Setting("paths are /compute and /change".to_owned())),
    }
}

/// A connection to the user plane.
fn connect(args: &Settings) -> Result<Connection, Error> {
    match (&args.channel, &args.control) {
        (Some(channel), _) => Ok(Connection::Channel(Box::new(client::channel::connect(channel, PATIENCE)?))),
        (None, Some(control)) => {
            UnixStream::connect(control).map(Connection::from).map_err(Error::system(control.display()))
        }
        (None, None) => Err(Error::nothing("this management plane controls no user plane")),
    }
}

/// Work that only a processor does: no memory, no system call.
fn compute(rounds: u64) -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..rounds {
        state = black_box((state ^ round).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(29));
    }
    state
}

/// The route that is there and gone in turn: within the one that the lab's traffic takes anyway, and to the same output.
const ROUTE: &str = "10.0.2.2/32";

/// Adds the route and takes it away, in turn. Every change is looked up after it was made.
fn routes(mut client: client::Client, count: u64) -> Result<Value, client::Failure> {
    let (mut took, mut seen) = (Vec::new(), 0_u64);
    for change in 0..count {
        let adds = change % 2 == 0;
        let begun = Instant::now();
        match adds {
            true => client.write("rt.set", &format!("{ROUTE} 0"))?,
            false => client.write("rt.remove", ROUTE)?,
        };
        took.push(begun.elapsed().as_nanos() as u64);
        let table = client.read("rt.table")?;
        seen += u64::from(table.contains(ROUTE) == adds);
    }
    Ok(json!({ "took_ns": took, "seen": seen }))
}

/// Has the router take configurations in turn. They differ in an element off the traffic's way.
fn configurations(mut client: client::Client, count: u64, text: &str) -> Result<Value, client::Failure> {
    client.be_patient();
    let (mut took, mut seen) = (Vec::new(), 0_u64);
    for change in 0..count {
        let extra = format!("change{}", change % 2);
        let begun = Instant::now();
        client.write("hotconfig", &format!("{text}\nIdle -> {extra} :: Counter -> Discard;\n"))?;
        took.push(begun.elapsed().as_nanos() as u64);
        seen += u64::from(client.read(&format!("{extra}.count")).is_ok());
    }
    Ok(json!({ "took_ns": took, "seen": seen }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> Settings {
        Settings { listen: "127.0.0.1:0".parse().unwrap(), control: None, channel: None, configuration: None }
    }

    #[test]
    fn what_may_be_asked_is_bounded() {
        let done = answer("/compute?rounds=1000", &args()).unwrap();
        assert_eq!(done["result"], answer("/compute?x=y&rounds=1000", &args()).unwrap()["result"]);
        for (path, why) in [
            ("/compute", "rounds lies between 1 and"),
            ("/compute?rounds=0", "rounds lies between 1 and"),
            ("/compute?rounds=99999999999999", "rounds lies between 1 and"),
            ("/change?count=2", "controls no user plane"),
            ("/", "paths are"),
        ] {
            assert!(answer(path, &args()).unwrap_err().to_string().contains(why), "{path}");
        }
    }

    /// What the server answers to these bytes.
    fn told(bytes: &[u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(bytes).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let _ = serve(stream, &args());
        let mut text = String::new();
        let _ = client.read_to_string(&mut text);
        text
    }

    #[test]
    fn what_is_no_request_is_refused() {
        assert!(
            told(b"GET /compute?rounds=10 HTTP/1.1\r\nHost: x\r\n\r\n").starts_with("HTTP/1.1 200 OK\r\n")
        );
        assert!(told(b"POST / HTTP/1.1\r\n\r\n").contains("only GET is known"));
        assert!(told(b"\x00\xff\r\n\r\n").contains("this is no HTTP"));
        assert!(told(&[b'a'; LONGEST + 1]).contains("too long"));
        assert_eq!(told(b"GET / HT"), "");
    }
}
