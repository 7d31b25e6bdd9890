// SPDX-License-Identifier: MIT OR Apache-2.0
//! Configurations in the form of `wg setconf` and `wg showconf`, and peers in the words of `wg set`.

use std::collections::HashSet;
use std::fmt;
use std::net::SocketAddr;

use wire::Prefix;

use crate::key::{self, PublicKey, Secret};

/// A device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Its private key.
    pub key: Option<Secret>,
    /// Its UDP port.
    pub port: Option<u16>,
    /// Its peers.
    pub peers: Vec<PeerConfig>,
}

/// A peer, or how one is to change: what is `None` stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerConfig {
    /// Its key.
    pub key: PublicKey,
    /// The preshared key; zeros take it away.
    pub preshared: Option<Secret>,
    /// Where it is.
    pub endpoint: Option<SocketAddr>,
    /// Seconds between keepalives; 0 for none.
    pub keepalive: Option<u16>,
    /// Its networks.
    pub allowed: Vec<Prefix>,
    /// Whether they take the place of those it has.
    pub replaces_allowed: bool,
}

impl PeerConfig {
    /// A peer of which nothing but the key is said.
    pub fn new(key: PublicKey) -> PeerConfig {
        PeerConfig {
            key,
            preshared: None,
            endpoint: None,
            keepalive: None,
            allowed: Vec::new(),
            replaces_allowed: false,
        }
    }
}

/// What is wrong with a text, and in which line, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The line; 0 where the text is one.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.what),
            line => write!(f, "line {line}: {}", self.what),
        }
    }
}

impl std::error::Error for Mistake {}

/// The longest interval of keepalives in seconds is what 16 bits take.
fn keepalive(text: &str) -> Result<u16, String> {
    match text {
        "off" => Ok(0),
        _ => text
            .parse()
            .map_err(|_| format!("'{}' is no interval: write 'off' or 1 to 65535 seconds", shown(text))),
    }
}

fn endpoint(text: &str) -> Result<SocketAddr, String> {
    let parsed = text.parse::<SocketAddr>().ok().filter(|endpoint| endpoint.port() != 0);
    parsed.ok_or_else(|| {
        let why = "write ADDRESS:PORT, as 192.0.2.1:51820 or [2001:db8::1]:51820; names are not looked up";
        format!("'{}' is no endpoint: {why}", shown(text))
    })
}

fn networks(text: &str) -> Result<Vec<Prefix>, String> {
    let texts = text.split(',').map(str::trim).filter(|text| !text.is_empty());
    let read = |text: &str| {
        text.parse().map_err(|_| {
            format!("'{}' is no network: write ADDRESS/LENGTH, as 10.1.0.0/16 or 2001:db8::/32", shown(text))
        })
    };
    texts.map(read).collect()
}

/// In which section a line is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    None,
    Interface,
    Peer,
}

/// Words of `wg-quick`, which elements of the configuration do.
const QUICK: &[&str] =
    &["address", "dns", "mtu", "table", "preup", "postup", "predown", "postdown", "saveconfig"];

/// Reads a file as `wg setconf` takes it. `#` begins a comment. All mistakes are found.
///
/// # Errors
/// What is wrong, by lines. Keys are not shown.
pub fn parse(text: &str) -> Result<Config, Vec<Mistake>> {
    let mut reading =
        Reading { config: Config::default(), keys: HashSet::new(), peer: None, section: Section::None };
    let mut mistakes = Vec::new();
    let mut last = 0;
    for (line, text) in (1..).zip(text.lines()) {
        last = line;
        let text = text.split('#').next().unwrap_or_default().trim();
        if !text.is_empty()
            && let Err(what) = reading.line(text, line)
        {
            mistakes.push(Mistake { line, what });
        }
    }
    if let Err(mistake) = reading.end_peer() {
        mistakes.push(mistake);
    }
    if reading.config.key.is_none() && mistakes.is_empty() {
        let what = "there is no PrivateKey: 'wg genkey' makes one, or 'junctor init wireguard'";
        mistakes.push(Mistake { line: last.max(1), what: what.into() });
    }
    if mistakes.is_empty() { Ok(reading.config) } else { Err(mistakes) }
}

/// Reads a file's bytes, and overwrites them, for they hold the private key.
///
/// # Errors
/// As [`parse`].
pub fn parse_bytes(mut bytes: Vec<u8>) -> Result<Config, Vec<Mistake>> {
    let read = match std::str::from_utf8(&bytes) {
        Ok(text) => parse(text),
        Err(why) => {
            let line = 1 + bytes[..why.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
            Err(vec![Mistake { line, what: "it is not valid UTF-8".into() }])
        }
    };
    crate::key::erase(&mut bytes);
    read
}

/// Where secrets stand in a text: the word behind `PRIVATE_KEY`, `PrivateKey`, `preshared-key` or `PresharedKey`, with or without `=` between.
pub fn secrets(text: &str) -> Vec<std::ops::Range<usize>> {
    let is_name = |word: &str| {
        let name: String = word.trim_end_matches('=').chars().filter(char::is_ascii_alphabetic).collect();
        matches!(name.to_ascii_lowercase().as_str(), "privatekey" | "presharedkey")
    };
    let at = |word: &str| word.as_ptr().addr() - text.as_ptr().addr();
    let mut found = Vec::new();
    let mut follows = false;
    for word in text.split_whitespace() {
        // `NAME=KEY`: the name ends at the first sign, and a key has its own at the end.
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        if follows && word != "=" {
            let key = word.trim_start_matches('=').trim_matches(['\'', '"']);
            if may_be_key(key) {
                found.push(at(key)..at(key) + key.len());
            }
            follows = false;
        } else if is_name(name) {
            follows = value.is_empty();
            if !value.is_empty() {
                found.push(at(value)..at(value) + value.len());
            }
        }
    }
    found
}

/// Whether a word may be a key, or a part of one. Messages have ordinary words there.
fn may_be_key(word: &str) -> bool {
    word.len() > 10 || word.bytes().any(|byte| !byte.is_ascii_lowercase())
}

/// A text without its secrets.
pub fn hidden(text: &str) -> String {
    let mut shown = text.to_owned();
    secrets(text).into_iter().rev().for_each(|place| shown.replace_range(place, "***"));
    shown
}

/// A peer that is being read.
struct Open {
    line: usize,
    key: Option<PublicKey>,
    /// A key was given, if a wrong one.
    has_key: bool,
    rest: PeerConfig,
}

struct Reading {
    config: Config,
    /// The peers' keys.
    keys: HashSet<PublicKey>,
    peer: Option<Open>,
    section: Section,
}

impl Reading {
    fn line(&mut self, text: &str, line: usize) -> Result<(), String> {
        if text.starts_with('[') {
            let ended = self
                .end_peer()
                .map_err(|mistake| format!("the peer before (line {}): {}", mistake.line, mistake.what));
            self.begin(text, line)?;
            return ended;
        }
        let (name, value) =
            text.split_once('=').ok_or("expected 'NAME = VALUE', '[Interface]' or '[Peer]'")?;
        let (name, value) = (name.trim(), value.trim());
        match self.section {
            Section::None => Err(format!("'{}' stands before '[Interface]' or '[Peer]'", shown(name))),
            Section::Interface => self.interface(name, value),
            Section::Peer => match &mut self.peer {
                Some(open) => peer_line(open, name, value),
                None => Ok(()),
            },
        }
    }

    fn begin(&mut self, text: &str, line: usize) -> Result<(), String> {
        self.section = match text.to_ascii_lowercase().as_str() {
            "[interface]" => Section::Interface,
            "[peer]" => {
                let rest = PeerConfig { replaces_allowed: true, ..PeerConfig::new(PublicKey([0; 32])) };
                self.peer = Some(Open { line, key: None, has_key: false, rest });
                Section::Peer
            }
            _ => return Err(format!("'{}' is no section: there are [Interface] and [Peer]", shown(text))),
        };
        Ok(())
    }

    fn end_peer(&mut self) -> Result<(), Mistake> {
        let Some(Open { line, key, has_key, rest }) = self.peer.take() else { return Ok(()) };
        let mistake = |what: String| Err(Mistake { line, what });
        match key {
            Some(key) if !self.keys.insert(key) => mistake(format!("the peer {key} stands here twice")),
            Some(key) => {
                self.config.peers.push(PeerConfig { key, ..rest });
                Ok(())
            }
            None if has_key => Ok(()),
            None => mistake("the peer has no PublicKey".into()),
        }
    }

    fn interface(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name.to_ascii_lowercase().as_str() {
            "privatekey" => {
                self.config.key = Some(value.parse().map_err(|why| format!("PrivateKey: {why}"))?)
            }
            "listenport" => {
                let port = value.parse().ok().filter(|port| *port != 0);
                self.config.port =
                    Some(port.ok_or_else(|| format!("'{}' is no port: write 1 to 65535", shown(value)))?);
            }
            "fwmark" if matches!(value, "off" | "0" | "0x0") => {}
            "fwmark" => return Err("FwMark is the kernel's: leave it out, and use Paint".into()),
            quick if QUICK.contains(&quick) => {
                return Err(format!(
                    "'{name}' is a word of wg-quick: addresses, routes and MTU belong to other elements ('wg-quick strip' leaves it out)"
                ));
            }
            _ => return Err(format!("'{}' is no word of [Interface]: PrivateKey, ListenPort", shown(name))),
        }
        Ok(())
    }
}

fn peer_line(open: &mut Open, name: &str, value: &str) -> Result<(), String> {
    let peer = &mut open.rest;
    match name.to_ascii_lowercase().as_str() {
        "publickey" => {
            open.has_key = true;
            open.key = Some(value.parse().map_err(|why| format!("PublicKey: {why}"))?);
        }
        "presharedkey" => peer.preshared = Some(value.parse().map_err(|why| format!("PresharedKey: {why}"))?),
        "endpoint" => peer.endpoint = Some(endpoint(value)?),
        "persistentkeepalive" => peer.keepalive = Some(keepalive(value)?),
        "allowedips" => peer.allowed.extend(networks(value)?),
        _ => {
            let all = "PublicKey, PresharedKey, AllowedIPs, Endpoint, PersistentKeepalive";
            return Err(format!("'{}' is no word of [Peer]: {all}", shown(name)));
        }
    }
    Ok(())
}

/// Characters of a text in a message.
const SHOWN_MAX: usize = 64;
/// Characters that a key has in a row. Half of one is no secret: the other half cannot be guessed.
const KEY_PART: usize = key::TEXT_LEN / 2;

/// A text as a message may show it: without what may be a key in the wrong place, and not at full length.
fn shown(text: &str) -> String {
    let is_of_key = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '+' | '/' | '=');
    let mut shown = String::new();
    for part in text.split_inclusive(|letter| !is_of_key(letter)) {
        let word = part.trim_end_matches(|letter| !is_of_key(letter));
        let (word, end) = part.split_at(word.len());
        shown += if word.len() > KEY_PART { "***" } else { word };
        shown += end;
    }
    match shown.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}...", &shown[..end]),
        None => shown,
    }
}

/// Reads a peer in the words of `wg set`: `KEY [preshared-key KEY] [endpoint ADDRESS:PORT] [persistent-keepalive SECONDS] [allowed-ips A/N,B/N]`.
///
/// # Errors
/// What is wrong. Keys are not shown.
pub fn parse_peer(text: &str) -> Result<PeerConfig, Mistake> {
    let mistake = |what: String| Mistake { line: 0, what };
    let mut words = text.split_whitespace().skip_while(|word| *word == "peer");
    let key = words.next().ok_or_else(|| mistake("expected the peer's public key".into()))?;
    let mut peer =
        PeerConfig::new(key.parse().map_err(|why| mistake(format!("the peer's public key: {why}")))?);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| mistake(format!("'{}' wants a value", shown(word))));
        match word {
            "preshared-key" => {
                let key = value()?.parse().map_err(|why| mistake(format!("preshared-key: {why}")))?;
                peer.preshared = Some(key);
            }
            "endpoint" => peer.endpoint = Some(endpoint(value()?).map_err(mistake)?),
            "persistent-keepalive" => peer.keepalive = Some(keepalive(value()?).map_err(mistake)?),
            "allowed-ips" => {
                peer.replaces_allowed = true;
                peer.allowed = networks(value()?).map_err(mistake)?;
            }
            _ => {
                let all = "preshared-key, endpoint, persistent-keepalive, allowed-ips";
                return Err(mistake(format!("'{}' is no word of a peer: {all}", shown(word))));
            }
        }
    }
    Ok(peer)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=";
    const B: &str = "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=";

    #[test]
    fn a_file_is_read() {
        let text = format!(
            "# mine\n[Interface]\nPrivateKey = {B}\nlistenport=51820\nFwMark = off\n\n[Peer]\nPublicKey={A} # Alice\nAllowedIPs = 10.1.0.0/16, 2001:db8::/32\nAllowedIPs = 10.9.0.1\nEndpoint = [2001:db8::7]:51820\nPersistentKeepalive = 25\n[Peer]\nPublicKey = {B}\nPresharedKey = {A}\n"
        );
        let config = parse(&text).unwrap();
        assert_eq!((config.port, config.key), (Some(51820), Some(B.parse().unwrap())));
        let [alice, other] = &config.peers[..] else { panic!() };
        let allowed: Vec<String> = alice.allowed.iter().map(ToString::to_string).collect();
        assert_eq!(allowed, ["10.1.0.0/16", "2001:db8::/32", "10.9.0.1/32"]);
        assert_eq!(
            (alice.keepalive, alice.endpoint),
            (Some(25), Some("[2001:db8::7]:51820".parse().unwrap()))
        );
        assert!(other.preshared.is_some() && other.allowed.is_empty() && other.replaces_allowed);
    }

    #[test]
    fn mistakes_have_their_lines_and_no_keys() {
        let text = format!(
            "ListenPort = 1\n[Interface]\nPrivateKey = {B}{B}\nAddress = 10.0.0.1/24\nListenPort = 0\n[Peer]\nAllowedIPs = 10.0.0.0/40\n[Peer]\nPublicKey = {A}\nEndpoint = example.com:51820\nPersistentKeepalive = soon\n[Peer]\nPublicKey = {A}\n[Else]\n{B}\n"
        );
        let mistakes = parse(&text).unwrap_err();
        let lines: Vec<usize> = mistakes.iter().map(|mistake| mistake.line).collect();
        assert_eq!(lines, [1, 3, 4, 5, 7, 8, 10, 11, 14], "{mistakes:?}");
        let all: String = mistakes.iter().map(|mistake| format!("{mistake}\n")).collect();
        assert!(!all.contains(&B[..20]), "{all}");
        for part in ["wg-quick", "names are not looked up", "no network", "no PublicKey", "44 characters"] {
            assert!(all.contains(part), "{part} in {all}");
        }
        let none = parse("[Interface]\n").unwrap_err();
        assert!(none[0].to_string().contains("line 1: there is no PrivateKey"), "{none:?}");
    }

    /// Lines that were joined, and words in wrong places.
    #[test]
    fn no_place_makes_a_message_show_a_key() {
        for name in ["AllowedIPs", "Endpoint", "PersistentKeepalive", "PublicKey", "Endpiont", ""] {
            for value in
                [B.to_owned(), format!("10.0.0.0/8 PresharedKey = {B}"), format!("1,{B}"), format!("{B}:1")]
            {
                let text =
                    format!("[Interface]\nPrivateKey = {B}\n[Peer]\nPublicKey = {A}\n{name} = {value}\n");
                for mistake in parse(&text).err().into_iter().flatten() {
                    assert!(!mistake.what.contains(&B[..30]), "{mistake}");
                }
                let word = value.replace(' ', "");
                for name in ["allowed-ips", "endpoint", "persistent-keepalive", "preshared-key", ""] {
                    let why = parse_peer(&format!("{A} {name} {word}")).map_err(|why| why.to_string());
                    assert!(why.err().is_none_or(|why| !why.contains(&B[..30])));
                }
            }
        }
        assert_eq!(shown("example.com:51820"), "example.com:51820");
        let six = "[2001:db8:1111:2222:3333:4444:5555:6666]:518200";
        assert_eq!((shown(six).as_str(), shown(&format!("a,{B}=b"))), (six, "a,***".to_owned()));
        assert_eq!(shown(&"\u{e9} ".repeat(100)).chars().count(), 67);
    }

    #[test]
    fn secrets_are_found_however_they_are_written() {
        for text in [
            format!("PRIVATE_KEY {B}"),
            format!("PrivateKey = {B}"),
            format!("PrivateKey={B}"),
            format!("private-key ={B}"),
            format!("PEER {A} preshared-key {B} endpoint 1.1.1.1:1"),
            format!("{A} preshared-key '{B}'"),
        ] {
            let shown = hidden(&text);
            assert!(!shown.contains(&B[..20]) && shown.contains("***"), "{text}: {shown}");
            assert_eq!(shown.contains(A), text.contains(A));
        }
        assert_eq!(secrets(&format!("PEER {A} allowed-ips ::/0")), []);
        let message = "line 2: PrivateKey: a key has 44 characters; PRIVATE_KEY should be one";
        assert_eq!(hidden(message), message);
    }

    #[test]
    fn peers_are_read_as_wg_set_takes_them() {
        let peer = parse_peer(&format!(
            "peer {A} preshared-key {B} endpoint 192.0.2.1:7 persistent-keepalive off allowed-ips 10.0.0.0/8,::/0"
        ))
        .unwrap();
        assert_eq!((peer.keepalive, peer.allowed.len(), peer.replaces_allowed), (Some(0), 2, true));
        assert_eq!(peer.preshared, Some(B.parse().unwrap()));
        let small = parse_peer(A).unwrap();
        assert_eq!(small, PeerConfig::new(A.parse().unwrap()));
        for (text, part) in [
            (String::new(), "public key"),
            ("abc".into(), "44 characters"),
            (format!("{A} endpoint"), "wants a value"),
            (format!("{A} endpoint 1.1.1.1"), "ADDRESS:PORT"),
            (format!("{A} colour red"), "'colour'"),
            (format!("{A} preshared-key {B}x"), "44 characters"),
        ] {
            let why = parse_peer(&text).unwrap_err().to_string();
            assert!(why.contains(part) && !why.contains(B), "{text}: {why}");
        }
    }
}
