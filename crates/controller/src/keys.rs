// SPDX-License-Identifier: MIT OR Apache-2.0
//! Key daemons, to whom the control plane is Linux' IPsec, change the databases of the user plane.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ipsec::Heard;
use xfrm::{Calls, Refusal, Remote, Server, heard_of, refusal_of};

use client::{Client, Connection, Failure};

/// How long the router may take to answer a connection by a channel.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a call waits for an event where nobody waits for that, in milliseconds.
const WAIT_MS: u64 = 500;
/// How often events are asked for where a call must not wait, and how long after a failure.
const PAUSE: Duration = Duration::from_millis(50);

/// How key daemons reach the databases of a router.
#[derive(Clone, Debug)]
pub struct Keys {
    /// The Unix socket that stands for the kernel's NETLINK_XFRM.
    pub socket: PathBuf,
    /// How the router's handlers are called: a channel, or the path of a control socket.
    pub calls: String,
    /// The router's element IPsecDatabase.
    pub database: String,
}

/// Serves key daemons.
///
/// # Errors
/// The socket cannot be made.
pub(crate) fn serve(keys: &Keys) -> Result<Server, String> {
    let Keys { socket, calls: way, database } = keys;
    let router = Router { way: way.clone(), element: database.clone(), client: None, said: String::new() };
    // A channel has one client at a time; a socket has several, one of whom may wait.
    let is_shared = !way.contains('/');
    let shared = Arc::new(Mutex::new(router.clone()));
    let for_events = if is_shared { shared.clone() } else { Arc::new(Mutex::new(router)) };
    let events = move || wait_for_events(&for_events, is_shared);
    let server = Server::start(socket, Remote::new(Shared(shared)), events);
    server.map_err(|why| format!("--xfrm {}: {why}", socket.display()))
}

fn wait_for_events(router: &Mutex<Router>, is_shared: bool) -> Heard {
    let wait = if is_shared { 0 } else { WAIT_MS };
    let text = lock(router).read("take_events", &wait.to_string());
    let is_idle = text.as_ref().map_or(true, |text| is_shared && text.is_empty());
    if is_idle {
        std::thread::sleep(PAUSE);
    }
    text.as_deref().map(heard_of).unwrap_or_default()
}

/// The router whose handlers are called.
struct Router {
    way: String,
    element: String,
    client: Option<Client>,
    /// What was last said about it.
    said: String,
}

impl Clone for Router {
    fn clone(&self) -> Router {
        Router { way: self.way.clone(), element: self.element.clone(), client: None, said: String::new() }
    }
}

impl Router {
    fn connect(&self) -> Result<Client, String> {
        let connection = if self.way.contains('/') {
            let socket = UnixStream::connect(&self.way).map_err(|why| format!("{}: {why}", self.way))?;
            Connection::from(socket)
        } else {
            Connection::Channel(Box::new(
                client::channel::connect(&self.way, PATIENCE).map_err(|why| why.to_string())?,
            ))
        };
        Client::new(connection).map_err(|why| format!("{}: {why}", self.way))
    }

    /// Calls a handler; once more if the router went away meanwhile, for another one may be there by now.
    fn call<T>(&mut self, call: impl Fn(&mut Client) -> Result<T, Failure>) -> Result<T, Refusal> {
        let mut why = String::new();
        for _ in 0..2 {
            if self.client.is_none() {
                match self.connect() {
                    Ok(client) => self.client = Some(client),
                    Err(unreachable) => {
                        why = unreachable;
                        break;
                    }
                }
            }
            let Some(client) = &mut self.client else { break };
            match call(client) {
                Ok(done) => {
                    self.said.clear();
                    return Ok(done);
                }
                Err(Failure::Refused(_, text)) => return Err(refusal_of(&text)),
                Err(failure) => {
                    why = failure.to_string();
                    self.client = None;
                }
            }
        }
        if why != self.said {
            errln!("junctor: xfrm: {why}");
            self.said.clone_from(&why);
        }
        Err(Refusal::unreachable(why))
    }
}

impl Calls for Router {
    fn read(&mut self, handler: &str, parameter: &str) -> Result<String, Refusal> {
        let name = format!("{}.{handler} {parameter}", self.element);
        self.call(|client| client.read(name.trim_end()))
    }

    fn write(&mut self, handler: &str, value: &str) -> Result<(), Refusal> {
        let name = format!("{}.{handler}", self.element);
        self.call(|client| client.write(&name, value).map(drop))
    }
}

/// A router that two threads call.
struct Shared(Arc<Mutex<Router>>);

fn lock(router: &Mutex<Router>) -> std::sync::MutexGuard<'_, Router> {
    router.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Calls for Shared {
    fn read(&mut self, handler: &str, parameter: &str) -> Result<String, Refusal> {
        lock(&self.0).read(handler, parameter)
    }

    fn write(&mut self, handler: &str, value: &str) -> Result<(), Refusal> {
        lock(&self.0).write(handler, value)
    }
}
