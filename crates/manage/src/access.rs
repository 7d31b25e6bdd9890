// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who asks: users of the Unix socket, tokens, and client certificates.
//!
//! The file of tokens has a line for each: a name, a role, and `sha256:` with the token's hash or `cert:` with the SHA-256 of a
//! certificate. Tokens have 256 random bits, so a plain hash suffices.

use std::fmt::Write as _;

use ring::rand::{SecureRandom as _, SystemRandom};
use sha2::{Digest as _, Sha256};

use crate::limits::Way;
use crate::problem::{Kind, Problem};

/// What a client may do. Each role may do what the one before may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Looks at counters, tables and configurations.
    Viewer,
    /// Sees packets, writes handlers of elements, ends sessions.
    Operator,
    /// Changes configurations, stops routers, runs tests.
    Admin,
}

impl Role {
    /// All roles.
    pub const ALL: [Role; 3] = [Role::Viewer, Role::Operator, Role::Admin];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }

    /// The role of this name.
    pub fn parse(name: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.name() == name)
    }
}

/// Who asks, and what that one may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// A name for the audit log.
    pub name: String,
    /// The role.
    pub role: Role,
}

/// The other end of a connection.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// The user at the other end of a Unix socket.
    pub uid: Option<u32>,
    /// The address at the other end of a TCP connection.
    pub address: String,
    /// The SHA-256 of the client's certificate, which the client authority has signed.
    pub certificate: Option<[u8; 32]>,
}

impl Peer {
    /// Whose requests are counted together: a user, or an address.
    pub fn key(&self) -> String {
        self.uid.map_or_else(|| self.address.clone(), |uid| format!("uid {uid}"))
    }
}

/// What a client shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Token,
    Certificate,
}

/// Something that a client may show: whose it is.
#[derive(Clone, Debug)]
struct Entry {
    name: String,
    role: Role,
    what: Shown,
    hash: [u8; 32],
}

/// Why a file of tokens is not accepted.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("line {line}: {why}; a line is: NAME viewer|operator|admin sha256:HEX (or cert:HEX)")]
pub struct BadLine {
    /// Which line.
    pub line: usize,
    /// What is wrong.
    pub why: String,
}

/// Who may do what.
#[derive(Clone, Debug)]
pub struct Access {
    entries: Vec<Entry>,
    /// The user that runs the service; that one and root are administrators at the Unix socket.
    own_uid: u32,
    /// The role of other users of the Unix socket.
    group_role: Role,
    /// The role of certificates that no line names.
    certificate_role: Option<Role>,
}

fn parse(line: &str) -> Result<Entry, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let &[name, role, shown] = &words[..] else { return Err(format!("{} words instead of 3", words.len())) };
    let role =
        Role::parse(role).ok_or_else(|| format!("there is no role '{}'", crate::words::shown(role)))?;
    let (what, digits) = match shown.split_once(':') {
        Some(("sha256", digits)) => (Shown::Token, digits),
        Some(("cert", digits)) => (Shown::Certificate, digits),
        _ => return Err("the third word begins with neither sha256: nor cert:".into()),
    };
    let hash = hash_of(digits).ok_or("the hash has not 64 hexadecimal digits")?;
    Ok(Entry { name: name.to_owned(), role, what, hash })
}

fn hash_of(digits: &str) -> Option<[u8; 32]> {
    // `openssl x509 -fingerprint` puts colons between.
    let digits: String = digits.chars().filter(|c| *c != ':').collect();
    let is_hex = digits.len() == 64 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    let byte = |i: usize| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).ok();
    let mut hash = [0; 32];
    for (i, into) in hash.iter_mut().enumerate() {
        *into = if is_hex { byte(i)? } else { return None };
    }
    Some(hash)
}

/// Compares without a branch that depends on the content.
fn is_same(a: &[u8; 32], b: &[u8; 32]) -> bool {
    std::hint::black_box(a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b))) == 0
}

impl Access {
    /// The rules of a file of tokens, for a service of this user.
    ///
    /// # Errors
    /// A line is wrong.
    pub fn new(
        text: &str,
        own_uid: u32,
        group_role: Role,
        certificate_role: Option<Role>,
    ) -> Result<Access, BadLine> {
        let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let entries = lines.map(|(line, text)| parse(text).map_err(|why| BadLine { line, why }));
        Ok(Access { entries: entries.collect::<Result<_, _>>()?, own_uid, group_role, certificate_role })
    }

    /// Who a client is.
    ///
    /// # Errors
    /// It shows nothing, or nothing that is known.
    pub fn identify(&self, peer: &Peer, authorization: Option<&str>) -> Result<Identity, Problem> {
        if let Some(header) = authorization {
            return self.of_token(header);
        }
        if let Some(hash) = &peer.certificate {
            return self.of_certificate(hash);
        }
        let Some(uid) = peer.uid else {
            let fix = "send 'Authorization: Bearer TOKEN', or use a client certificate";
            return Err(Problem::new(Kind::Unauthenticated, "over TCP each request needs a token").fix(fix));
        };
        let role = if self.is_owner(uid) { Role::Admin } else { self.group_role };
        Ok(Identity { name: format!("uid {uid}"), role })
    }

    fn of_token(&self, header: &str) -> Result<Identity, Problem> {
        let refuse = |why: &str| {
            let fix = "send 'Authorization: Bearer TOKEN' with a token whose hash is in the file of --tokens";
            Problem::new(Kind::Unauthenticated, why).at("header: Authorization").fix(fix)
        };
        let token = header
            .get(..7)
            .filter(|scheme| scheme.eq_ignore_ascii_case("bearer "))
            .map(|_| header[7..].trim());
        let token = token.ok_or_else(|| refuse("the scheme is not Bearer"))?;
        self.known(Shown::Token, &Sha256::digest(token.as_bytes()).into())
            .ok_or_else(|| refuse("the token is not known"))
    }

    fn of_certificate(&self, hash: &[u8; 32]) -> Result<Identity, Problem> {
        let by_default = || {
            let name = format!("cert {}", &hex(hash)[..16]);
            self.certificate_role.map(|role| Identity { name, role })
        };
        self.known(Shown::Certificate, hash).or_else(by_default).ok_or_else(|| {
            Problem::new(
                Kind::Unauthenticated,
                format!("no role is known for the certificate cert:{}", hex(hash)),
            )
            .fix("add a line with it to the file of --tokens, or give --client-role")
        })
    }

    /// How a client comes.
    pub fn way(&self, peer: &Peer) -> Way {
        match peer.uid {
            Some(uid) if self.is_owner(uid) => Way::Owner,
            Some(_) => Way::Local,
            None => Way::Network,
        }
    }

    fn is_owner(&self, uid: u32) -> bool {
        uid == self.own_uid || uid == 0
    }

    /// Looks through all entries, whichever one it is.
    fn known(&self, what: Shown, hash: &[u8; 32]) -> Option<Identity> {
        let mut found = None;
        for entry in &self.entries {
            if is_same(&entry.hash, hash) & (entry.what == what) {
                found = Some(Identity { name: entry.name.clone(), role: entry.role });
            }
        }
        found
    }

    /// Whether any token or certificate is known.
    pub fn has_entries(&self) -> bool {
        !self.entries.is_empty()
    }
}

/// Hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A new token, and its line in a file of tokens.
///
/// # Errors
/// The system gives no random numbers.
pub fn new_token(name: &str, role: Role) -> Result<(String, String), ring::error::Unspecified> {
    let mut random = [0; 32];
    SystemRandom::new().fill(&mut random)?;
    let token = format!("jt_{}", hex(&random));
    let line = format!("{name} {} sha256:{}", role.name(), hex(&Sha256::digest(token.as_bytes())));
    Ok((token, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp() -> Peer {
        Peer { address: "192.0.2.1".into(), ..Peer::default() }
    }

    #[test]
    fn tokens_and_certificates_have_their_roles() {
        let (token, line) = new_token("alice", Role::Operator).unwrap();
        let file = format!("# tokens\n\n{line}\nbob viewer cert:{}\n", "ab".repeat(32));
        let access = Access::new(&file, 7, Role::Operator, None).unwrap();
        let who =
            |peer: &Peer, header: Option<&str>| access.identify(peer, header).map(|who| (who.name, who.role));
        assert_eq!(who(&tcp(), Some(&format!("Bearer {token}"))), Ok(("alice".into(), Role::Operator)));
        assert_eq!(who(&tcp(), Some(&format!("bearer {token}"))), Ok(("alice".into(), Role::Operator)));
        let long = "x".repeat(5000);
        for bad in ["Bearer ", "Bearer x", &token, "Basic eDp5", "", "Bearér x", &long] {
            assert_eq!(who(&tcp(), Some(bad)).unwrap_err().kind, Kind::Unauthenticated, "{bad}");
        }
        assert_eq!(who(&tcp(), None).unwrap_err().kind, Kind::Unauthenticated);
        let certificate = |byte: u8| Peer { certificate: Some([byte; 32]), ..tcp() };
        assert_eq!(who(&certificate(0xab), None), Ok(("bob".into(), Role::Viewer)));
        assert_eq!(who(&certificate(0xac), None).unwrap_err().kind, Kind::Unauthenticated);
        // A certificate's hash is no token, and a user of the socket may use a token for less.
        assert!(who(&tcp(), Some(&format!("Bearer {}", "ab".repeat(32)))).is_err());
        let user = |uid| Peer { uid: Some(uid), ..Peer::default() };
        assert_eq!(who(&user(7), None), Ok(("uid 7".into(), Role::Admin)));
        assert_eq!(who(&user(0), None), Ok(("uid 0".into(), Role::Admin)));
        assert_eq!(who(&user(8), None), Ok(("uid 8".into(), Role::Operator)));
        assert_eq!(who(&user(0), Some(&format!("Bearer {token}"))), Ok(("alice".into(), Role::Operator)));
    }

    #[test]
    fn wrong_lines_are_named() {
        let (_, good) = new_token("a", Role::Viewer).unwrap();
        for bad in
            ["a viewer", "a king sha256:00", "a viewer sha256:00", "a viewer md5:00", "a viewer sha256:zz"]
        {
            let found = Access::new(&format!("{good}\n{bad}\n"), 0, Role::Viewer, None).unwrap_err();
            assert_eq!(found.line, 2, "{bad}");
        }
    }
}
