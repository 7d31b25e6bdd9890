// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages between a controller and its agents: encrypted, and only between holders of the same key.
//!
//! The Noise protocol `NNpsk0` (rev. 34, section 9.2): the shared key goes into the first message, so an agent answers nothing at all
//! to whom does not hold it, and each connection has keys of its own. A Noise message is at most 65,535 bytes long; what is said in
//! JSON goes in as many as it takes, each behind two bytes of length, with a first byte that says whether more follow.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use snow::{Builder, HandshakeState, TransportState};

use super::places::PLACES;
use crate::Error;
use crate::error::ChannelError;

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
/// What both sides must mean.
const PROLOGUE: &[u8] = b"junctor test agent";
/// Version of what is said, which both sides tell in their introduction.
const VERSION: u32 = 5;
/// What an agent sends instead of its version if it serves as many as it can.
const BUSY: u32 = 0;
const LONGEST: usize = 65_535;
/// The longest words of an introduction: a key of 32 bytes, a version, and a tag of 16 bytes.
const FIRST: usize = 52;
/// What Noise adds to a message.
const TAG: usize = 16;
/// The most bytes that one side may say at once.
const MOST: usize = 64 << 20;
/// How long the other side has for being reached, and for saying the first words.
const PATIENCE: Duration = Duration::from_secs(15);
const KEY: usize = 32;

/// A secret that controller and agents share.
#[derive(Clone)]
pub(crate) struct AgentKey([u8; KEY]);

impl AgentKey {
    /// Reads it from a file of 64 hexadecimal digits that only its owner may read.
    pub(crate) fn read(path: &Path) -> Result<AgentKey, Error> {
        let name = path.display();
        let wrong = Error::advised(&name, format!("; 'junctor test agent --new-key {name}' makes one"));
        let mode = std::fs::metadata(path).map_err(&wrong)?.permissions().mode();
        if mode & 0o077 != 0 {
            return Err(Error::unfit(format!(
                "{name} may be read by others (mode {:o}); 'chmod 600 {name}' mends it",
                mode & 0o777
            )));
        }
        let text = std::fs::read_to_string(path).map_err(&wrong)?;
        AgentKey::parse(text.trim()).ok_or_else(|| {
            Error::unfit(format!(
                "{name}: a key is {} hexadecimal digits; 'junctor test agent --new-key {name}' makes one",
                2 * KEY
            ))
        })
    }

    fn parse(text: &str) -> Option<AgentKey> {
        let digits: Vec<u8> = text.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect::<Option<_>>()?;
        let bytes: Vec<u8> = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
        (digits.len() == 2 * KEY).then(|| bytes.try_into().ok().map(AgentKey))?
    }

    /// Makes one by chance, and a file of it that only its owner may read. A file that is there stays as it is.
    pub(super) fn make(path: &Path) -> Result<(), Error> {
        let mut bytes = [0; KEY];
        let wrong = Error::system(path.display());
        std::fs::File::open("/dev/urandom")
            .and_then(|mut chance| chance.read_exact(&mut bytes))
            .map_err(&wrong)?;
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        file.and_then(|mut file| writeln!(file, "{text}")).map_err(&wrong)
    }
}

/// A connection to somebody who holds the same key.
pub(super) struct Channel {
    stream: TcpStream,
    noise: TransportState,
    /// The message that is on its way.
    sealed: Vec<u8>,
}

impl Channel {
    /// Connects to an agent. Each later word of it may take as long as `patience`.
    pub(super) fn connect(
        address: &str,
        key: &AgentKey,
        patience: Duration,
    ) -> Result<Channel, ChannelError> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => return Channel::introduce(stream, key, patience),
                Err(why) => last = why,
            }
        }
        Err(last.into())
    }

    fn introduce(mut stream: TcpStream, key: &AgentKey, patience: Duration) -> Result<Channel, ChannelError> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut noise = builder(key)?.build_initiator().map_err(|_| ChannelError::Stranger)?;
        let mut buffer = vec![0; LONGEST];
        tell(&mut stream, &mut noise, &mut buffer, VERSION)?;
        // An agent with another key hangs up without a word.
        learn(&mut stream, &mut noise, &mut buffer)?;
        Channel::open(stream, noise, patience)
    }

    /// Accepts a caller. One that has the key is informed if it `may` not come in. Each of its words may take as long as `patience`.
    pub(super) fn accept(
        mut stream: TcpStream,
        key: &AgentKey,
        patience: Duration,
        may: impl FnOnce() -> bool,
    ) -> Result<Channel, ChannelError> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut noise = builder(key)?.build_responder().map_err(|_| ChannelError::Stranger)?;
        let mut buffer = vec![0; LONGEST];
        let known = learn(&mut stream, &mut noise, &mut buffer);
        // A caller that holds the key is informed in any case.
        let may = may();
        if !matches!(known, Err(ChannelError::Stranger | ChannelError::Io(_))) {
            tell(&mut stream, &mut noise, &mut buffer, if may { VERSION } else { BUSY })?;
        }
        known?;
        if !may {
            return Err(ChannelError::Busy(PLACES));
        }
        Channel::open(stream, noise, patience)
    }

    fn open(stream: TcpStream, noise: HandshakeState, patience: Duration) -> Result<Channel, ChannelError> {
        stream.set_read_timeout(Some(patience))?;
        let noise = noise.into_transport_mode().map_err(|_| ChannelError::Stranger)?;
        Ok(Channel { stream, noise, sealed: vec![0; LONGEST] })
    }

    /// From now on, each word of the other side may take so long.
    pub(super) fn wait_at_most(&mut self, patience: Duration) -> Result<(), ChannelError> {
        Ok(self.stream.set_read_timeout(Some(patience))?)
    }

    /// Says something.
    pub(super) fn say(&mut self, what: &impl Serialize) -> Result<(), ChannelError> {
        let text = serde_json::to_vec(what)?;
        if text.len() > MOST {
            return Err(ChannelError::TooLong(MOST));
        }
        let mut parts = text.chunks(LONGEST - TAG - 1).peekable();
        while let Some(part) = parts.next() {
            let more = u8::from(parts.peek().is_some());
            let plain = [&[more], part].concat();
            let len =
                self.noise.write_message(&plain, &mut self.sealed).map_err(|_| ChannelError::Tampered)?;
            put(&mut self.stream, &self.sealed[..len])?;
        }
        Ok(())
    }

    /// Hears something.
    pub(super) fn hear<T: DeserializeOwned>(&mut self) -> Result<T, ChannelError> {
        let mut text = Vec::new();
        loop {
            let message = take(&mut self.stream, LONGEST)?;
            let len =
                self.noise.read_message(&message, &mut self.sealed).map_err(|_| ChannelError::Tampered)?;
            let [more, part @ ..] = &self.sealed[..len] else { return Err(ChannelError::Tampered) };
            text.extend_from_slice(part);
            if text.len() > MOST {
                return Err(ChannelError::TooLong(MOST));
            }
            if *more == 0 {
                return Ok(serde_json::from_slice(&text)?);
            }
        }
    }
}

/// Introduces this side.
fn tell(
    stream: &mut TcpStream,
    noise: &mut HandshakeState,
    buffer: &mut [u8],
    version: u32,
) -> Result<(), ChannelError> {
    let len = noise.write_message(&version.to_be_bytes(), buffer).map_err(|_| ChannelError::Stranger)?;
    Ok(put(stream, &buffer[..len])?)
}

/// Learns who the other side is.
fn learn(stream: &mut TcpStream, noise: &mut HandshakeState, buffer: &mut [u8]) -> Result<(), ChannelError> {
    let message = take(stream, FIRST).map_err(stranger)?;
    let len = noise.read_message(&message, buffer).map_err(|_| ChannelError::Stranger)?;
    match buffer[..len].try_into().map(u32::from_be_bytes) {
        Ok(VERSION) => Ok(()),
        Ok(BUSY) => Err(ChannelError::Busy(PLACES)),
        Ok(other) => Err(ChannelError::Version(other, VERSION)),
        Err(_) => Err(ChannelError::Stranger),
    }
}

fn builder(key: &AgentKey) -> Result<Builder<'_>, ChannelError> {
    let pattern = PATTERN.parse().map_err(|_| ChannelError::Stranger)?;
    let builder = Builder::new(pattern).psk(0, &key.0).and_then(|builder| builder.prologue(PROLOGUE));
    builder.map_err(|_| ChannelError::Stranger)
}

/// Who hangs up, or says nothing, during the introduction is a stranger.
fn stranger(why: io::Error) -> ChannelError {
    use io::ErrorKind::{ConnectionReset, TimedOut, UnexpectedEof, WouldBlock};
    match why.kind() {
        UnexpectedEof | ConnectionReset | TimedOut | WouldBlock => ChannelError::Stranger,
        _ => ChannelError::Io(why),
    }
}

/// Sends a message behind its length.
fn put(stream: &mut impl Write, message: &[u8]) -> io::Result<()> {
    let len = u16::try_from(message.len()).map_err(io::Error::other)?;
    stream.write_all(&[&len.to_be_bytes(), message].concat())
}

/// Receives one of at most `most` bytes.
fn take(stream: &mut impl Read, most: usize) -> io::Result<Vec<u8>> {
    let mut len = [0; 2];
    stream.read_exact(&mut len)?;
    let len = usize::from(u16::from_be_bytes(len));
    if len > most {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut message = vec![0; len];
    stream.read_exact(&mut message)?;
    Ok(message)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    const FOR_EVER: Duration = Duration::from_secs(60);

    fn key(byte: u8) -> AgentKey {
        AgentKey([byte; KEY])
    }

    /// An agent that repeats what it hears, once, and who called it.
    fn echo(key: AgentKey) -> (String, thread::JoinHandle<Result<String, ChannelError>>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let address = listener.local_addr().expect("its address").to_string();
        let agent = thread::spawn(move || {
            let (stream, _) = listener.accept()?;
            let mut channel = Channel::accept(stream, &key, FOR_EVER, || true)?;
            let heard: String = channel.hear()?;
            channel.say(&heard)?;
            Ok(heard)
        });
        (address, agent)
    }

    #[test]
    fn what_is_said_is_heard_however_long() {
        for len in [0, 1, LONGEST - TAG - 3, LONGEST, 1_000_000] {
            let (address, agent) = echo(key(7));
            let text = "x".repeat(len);
            let mut channel = Channel::connect(&address, &key(7), FOR_EVER).expect("a channel");
            channel.say(&text).expect("said");
            assert!(channel.hear::<String>().expect("heard") == text, "{len}");
            assert!(agent.join().expect("no panic").expect("no error") == text, "{len}");
        }
    }

    #[test]
    fn who_has_another_key_learns_nothing() {
        let (address, agent) = echo(key(7));
        assert!(matches!(Channel::connect(&address, &key(8), FOR_EVER), Err(ChannelError::Stranger)));
        assert!(matches!(agent.join().expect("no panic"), Err(ChannelError::Stranger)));
    }

    #[test]
    fn who_has_the_key_is_told_that_there_is_no_place() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let address = listener.local_addr().expect("its address").to_string();
        let agent = thread::spawn(move || {
            let (stream, _) = listener.accept()?;
            Channel::accept(stream, &key(7), FOR_EVER, || false).map(drop)
        });
        let told = Channel::connect(&address, &key(7), FOR_EVER);
        assert!(matches!(told, Err(ChannelError::Busy(PLACES))));
        assert!(matches!(agent.join().expect("no panic"), Err(ChannelError::Busy(PLACES))));
    }

    #[test]
    fn who_is_of_another_version_is_told_so() {
        let (address, agent) = echo(key(7));
        let mut stream = TcpStream::connect(address).expect("connected");
        let key = key(7);
        let mut noise = builder(&key).expect("a builder").build_initiator().expect("an initiator");
        let mut buffer = vec![0; LONGEST];
        let len = noise.write_message(&9u32.to_be_bytes(), &mut buffer).expect("words");
        put(&mut stream, &buffer[..len]).expect("sent");
        let Err(why) = agent.join().expect("no panic") else { panic!("it was served") };
        let said = why.to_string();
        assert!(said.contains("speaks version 9") && said.contains(&format!("this one {VERSION}")), "{said}");
        // And so it would say.
        let reply = take(&mut stream, FIRST).expect("words");
        let len = noise.read_message(&reply, &mut buffer).expect("words of who holds the key");
        assert_eq!(buffer[..len], VERSION.to_be_bytes());
    }

    #[test]
    fn who_speaks_another_protocol_is_a_stranger() {
        let (address, agent) = echo(key(7));
        let mut stream = TcpStream::connect(address).expect("connected");
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("sent");
        stream.shutdown(std::net::Shutdown::Write).expect("shut down");
        assert!(matches!(agent.join().expect("no panic"), Err(ChannelError::Stranger)));
        let mut reply = Vec::new();
        // The agent may have closed before it read all, which resets the connection: nothing comes either way.
        let _ = stream.read_to_end(&mut reply);
        assert!(reply.is_empty());
    }

    #[test]
    fn a_changed_byte_is_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let address = listener.local_addr().expect("its address").to_string();
        let agent = thread::spawn(move || {
            let (stream, _) = listener.accept()?;
            Channel::accept(stream, &key(7), FOR_EVER, || true)?.hear::<String>()
        });
        let mut channel = Channel::connect(&address, &key(7), FOR_EVER).expect("a channel");
        let len = channel.noise.write_message(b"\0\"hello\"", &mut channel.sealed).expect("sealed");
        channel.sealed[3] ^= 1;
        put(&mut channel.stream, &channel.sealed[..len]).expect("sent");
        assert!(matches!(agent.join().expect("no panic"), Err(ChannelError::Tampered)));
    }

    #[test]
    fn keys_are_files_of_their_owner() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("key");
        assert!(AgentKey::read(&path).err().is_some_and(|why| why.to_string().contains("--new-key")));
        AgentKey::make(&path).expect("a key");
        let made = AgentKey::read(&path).expect("read");
        assert_ne!(made.0, [0; KEY]);
        assert!(AgentKey::make(&path).is_err(), "a key is not written over");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("changed");
        assert!(AgentKey::read(&path).err().is_some_and(|why| why.to_string().contains("chmod 600")));
        for bad in ["", "12", &"g".repeat(64), &"0".repeat(63), &"0".repeat(65)] {
            assert!(AgentKey::parse(bad).is_none(), "{bad}");
        }
    }
}
